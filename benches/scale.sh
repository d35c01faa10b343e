#!/usr/bin/env bash
# How large a machine takes how long: a table of collectives on 8 to 131,072 GPUs (nodes of
# superpod-h100), one process for each row. A row that takes longer than the limit says so.
#
#   benches/scale.sh [-l SECONDS] [-m MIB] [-g "GPUS …"] [-c "CASE …"] [-x] [PROGRAM]
#
#   -l  longest time of a row (default 60)
#   -m  most memory of a row, in MiB of address space (default 8192)
#   -g  numbers of GPUs, multiples of 8
#   -c  cases: ring, tree, nvls-tree (all-reduce of 1 GiB), ring-1M, tree-1M, nvls-tree-1M (of
#       1 MiB), all-to-all (1 GiB)
#   -x  simulate every worker and every step (--exact-full)
set -euo pipefail

limit=60
memory=8192
gpus="8 64 512 1024 4096 8192 16384 65536 131072"
cases="ring ring-1M tree tree-1M nvls-tree nvls-tree-1M all-to-all"
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
trap 'rm -f "$out" "$used"' EXIT

# The number that a field of the only row has.
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),*\$/\1/p" "$out" | head -n 1; }

row() { printf '| %-12s | %7s | %8s | %7s | %-16s | %11s | %14s | %10s | %14s |\n' "$@"; }

row case GPUs "wall s" MiB "ranks -> classes" events skipped events/s "simulated us"
row --- ---: ---: ---: --- ---: ---: ---: ---:
for name in $cases; do
    size=1G
    algorithm="${name%-1M}"
    [ "$name" = "$algorithm" ] || size=1M
    collective=(all-reduce --algo "$algorithm")
    [ "$name" != all-to-all ] || collective=(all-to-all)
    for count in $gpus; do
        code=0
        (
            ulimit -v $((memory * 1024))
            exec /usr/bin/time -q -o "$used" -f '%e %M' timeout "$limit" \
                "$program" collective "${collective[@]}" -t superpod-h100 -n $((count / 8)) \
                --size "$size" --json "${more[@]}" > "$out" 2> /dev/null
        ) || code=$?
        read -r wall peak < <(tail -n 1 "$used")
        peak=$((peak / 1024))
        case "$code" in
            0)
                rate="$(awk -v e="$(field events)" -v ms="$(field wall_ms)" \
                    'BEGIN { printf "%.2g M", (ms > 0) ? e / ms / 1e3 : 0 }')"
                row "$name" "$count" "$wall" "$peak" "$count -> $(field rank_classes)" \
                    "$(field events)" "$(field skipped)" "$rate" "$(field time_us)"
                ;;
            124) row "$name" "$count" "> $limit" "> $peak" "" "" "" "" "" ;;
            1 | 2) row "$name" "$count" "refused" "" "" "" "" "" "" ;;
            *) row "$name" "$count" "" "> $memory" "" "" "" "" "" ;;
        esac
    done
done
