#!/usr/bin/env bash
# How large a machine takes how long: a table of collectives on 8 to 131,072 GPUs (nodes of
# superpod-h100, whose three tiers of switches join 65,536 GPUs, beyond that of hgx-h100-roce), one process
# for each row; then steps of training jobs. A row that takes longer than the limit says so.
#
#   benches/scale.sh [-l SECONDS] [-m MIB] [-g "GPUS …"] [-c "CASE …"] [-x] [PROGRAM]
#
#   -l  longest time of a row (default 60)
#   -m  most memory of a row, in MiB of address space (default 8192)
#   -g  numbers of GPUs, multiples of 8
#   -c  cases: ring, tree, nvls-tree (all-reduce of 1 GiB), ring-1M, tree-1M, nvls-tree-1M (of
#       1 MiB), ring-odd (of 1 GB), ring-late and ring-late-1M (each kernel of each rank late by 5 us in
#       the mean, and its work 2 % longer, give or take 5 %), all-to-all (1 GiB); step (the shipped Llama 3 405B on 16,384
#       GPUs), stragglers (Llama 3 70B with FSDP, each kernel of each of 1,024 and 8,192 GPUs 2 %
#       longer, give or take 5 %)
#   -x  simulate every worker and every step of collectives (--exact-full)
set -euo pipefail

limit=60
memory=8192
gpus="8 64 512 1024 4096 8192 16384 65536 131072"
cases="ring ring-1M ring-odd ring-late ring-late-1M tree tree-1M nvls-tree nvls-tree-1M all-to-all step stragglers"
more=()
while getopts "l:m:g:c:x" option; do
    case "$option" in
        l) limit="$OPTARG" ;;
        m) memory="$OPTARG" ;;
        g) gpus="$OPTARG" ;;
        c) cases="$OPTARG" ;;
        x) more+=(--exact-full) ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
program="${1:-${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/release/fabricsim}"

out="$(mktemp)"
used="$(mktemp)"
scenario="$(mktemp --suffix .json)"
faults="$(mktemp --suffix .json)"
trap 'rm -f "$out" "$used" "$scenario" "$faults"' EXIT
cat > "$faults" << JSON
[{"jitter": {
  "ranks": "all", "per": "kernel", "add": {"exponential": {"mean": "5us"}},
  "stretch": {"normal": {"mean": 0.02, "sd": 0.05}}
}}]
JSON

# The number that a field of the only row has.
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),*\$/\1/p" "$out" | head -n 1; }

row() { printf '| %-12s | %7s | %8s | %7s | %-16s | %11s | %14s | %10s | %14s |\n' "$@"; }

# Runs the program with these arguments, within the limits; what it prints is in $out.
run() {
    code=0
    (
        ulimit -v $((memory * 1024))
        exec /usr/bin/time -q -o "$used" -f '%e %M' timeout "$limit" \
            "$program" "$@" --json > "$out" 2> /dev/null
    ) || code=$?
    read -r wall peak < <(tail -n 1 "$used")
    peak=$((peak / 1024))
}

# The row of what was run: its name, GPUs, milliseconds, classes, and simulated microseconds.
tell() {
    local rate
    case "$code" in
        0)
            rate="$(awk -v e="$(field events)" -v ms="$3" \
                'BEGIN { printf "%.2g M", (ms > 0) ? e / ms / 1e3 : 0 }')"
            row "$1" "$2" "$wall" "$peak" "$4" "$(field events)" "$(field skipped)" "$rate" "$5"
            ;;
        124) row "$1" "$2" "> $limit" "> $peak" "" "" "" "" "" ;;
        1 | 2) row "$1" "$2" "refused" "" "" "" "" "" "" ;;
        *) row "$1" "$2" "" "> $memory" "" "" "" "" "" ;;
    esac
}

# A job's row: its name and GPUs; the scenario is the third.
job() {
    run run "$3"
    tell "$1" "$2" "$(awk -v s="$wall" 'BEGIN { print s * 1e3 }')" "" \
        "$(awk -v s="$(field step_s)" 'BEGIN { printf "%.6f", s * 1e6 }')"
}

row case GPUs "wall s" MiB "ranks -> classes" events skipped events/s "simulated us"
row --- ---: ---: ---: --- ---: ---: ---: ---:
for name in $cases; do
    size=1G
    algorithm="${name%-1M}"
    [ "$name" = "$algorithm" ] || size=1M
    [ "$name" != ring-odd ] || { algorithm=ring && size=1GB; }
    collective=(all-reduce --algo "${algorithm%-late}")
    [ "$algorithm" = "${algorithm%-late}" ] || collective+=(--faults "$faults")
    case "$name" in
        all-to-all) collective=(all-to-all) ;;
        step)
            job "$name" 16384 "$(dirname "$0")/../scenarios/llama3-405b-16k.json"
            continue
            ;;
        stragglers)
            for nodes in 128 1024; do
                cat > "$scenario" << JSON
{
  "name": "stragglers",
  "topology": {"name": "superpod-h100"},
  "nodes": $nodes,
  "job": {"training": {
    "model": {"preset": "llama3-70b"}, "sequence": 4096,
    "micro_batch": 1, "global_batch": $((nodes * 8)),
    "flash_version": 3, "recompute": "full", "data_parallel": {"fsdp": {}}
  }},
  "faults": [{"jitter": {
    "ranks": "all", "per": "kernel", "stretch": {"normal": {"mean": 0.02, "sd": 0.05}}
  }}]
}
JSON
                job "$name" $((nodes * 8)) "$scenario"
            done
            continue
            ;;
    esac
    for count in $gpus; do
        topology=superpod-h100
        [ "$count" -le 65536 ] || topology=hgx-h100-roce
        run collective "${collective[@]}" -t "$topology" -n $((count / 8)) --size "$size" \
            "${more[@]}"
        tell "$name" "$count" "$(field wall_ms)" "$count -> $(field rank_classes)" \
            "$(field time_us)"
    done
done
