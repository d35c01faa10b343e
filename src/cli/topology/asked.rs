//! What `fabricsim topology …` is asked.

use crate::cli::examples::Examples;

pub(super) const LIST: Examples = [
    ("Which machines are shipped?", "fabricsim topology list"),
    (
        "Which of them have H100?",
        "fabricsim topology list | grep H100",
    ),
    ("How many are there?", "fabricsim topology list | wc -l"),
];

pub(super) const SHOW: Examples = [
    (
        "What is a DGX H100 made of, and why do its links carry what they carry?",
        "fabricsim topology show dgx-h100",
    ),
    (
        "What is between 32 nodes of a SuperPOD?",
        "fabricsim topology show superpod-h100 -n 32",
    ),
    (
        "What is in a file of my own?",
        "fabricsim topology new dgx-a100 -n 4 -o mine.json\n\
         fabricsim topology show mine.json",
    ),
];

pub(super) const CHECK: Examples = [
    (
        "Is a file of my own a machine?",
        "fabricsim topology new dgx-a100 -n 4 -o mine.json\n\
         fabricsim topology check mine.json",
    ),
    (
        "Can a shipped one have so many nodes?",
        "fabricsim topology check superpod-h100 -n 64",
    ),
    (
        "Is a machine still whole after an import?",
        "fabricsim topology export dgx-h100 -n 1 -o dump.xml\n\
         fabricsim topology import dump.xml -o back.json\n\
         fabricsim topology check back.json",
    ),
];

pub(super) const DRAW: Examples = [
    (
        "What does a DGX H100 look like?",
        "fabricsim topology draw dgx-h100 -o dgx-h100.svg",
    ),
    (
        "And the network of two of them, for Graphviz?",
        "fabricsim topology draw dgx-h100 -n 2 -o two.dot",
    ),
    (
        "What does a file of my own look like?",
        "fabricsim topology new dgx-a100 -n 2 -o mine.json\n\
         fabricsim topology draw mine.json -o mine.svg",
    ),
];

pub(super) const PATHS: Examples = [
    (
        "How far is each GPU from each other one, as nvidia-smi and NCCL see it?",
        "fabricsim topology paths dgx-h100",
    ),
    (
        "Which links are between two GPUs of a node?",
        "fabricsim topology paths x86-h100-pcie gpu0 gpu7",
    ),
    (
        "And to a NIC of another node?",
        "fabricsim topology paths dgx-h100 -n 2 node0/gpu3 node1/nic3",
    ),
];

pub(super) const IMPORT: Examples = [
    (
        "What does a machine look like of which there is NCCL's dump?",
        "fabricsim topology export dgx-h100 -n 1 -o dump.xml\n\
         fabricsim topology import dump.xml -o mine.json\n\
         fabricsim topology show mine.json",
    ),
    (
        "And of which there is `nvidia-smi topo -m`?",
        "fabricsim topology export dgx-h100 -n 1 --format smi -o matrix.txt\n\
         fabricsim topology import matrix.txt --gpu h100-sxm -o smi.json",
    ),
    (
        "How is it called otherwise?",
        "fabricsim topology import dump.xml --name ours -o ours.json",
    ),
];

pub(super) const NEW: Examples = [
    (
        "What may be edited of a DGX H100?",
        "fabricsim topology new dgx-h100",
    ),
    (
        "What does half as many cables up look like?",
        "fabricsim topology new superpod-h100 -n 64 --oversubscription 2 -o half.json",
    ),
    (
        "How fast is it with ECMP?",
        "fabricsim topology new superpod-h100 -n 8 --set fabrics.compute.routing=ecmp -o ecmp.json\n\
         fabricsim collective all-to-all -t ecmp.json -s 64M",
    ),
];

pub(super) const EXPORT: Examples = [
    (
        "What is written out of a machine, repetitions expanded?",
        "fabricsim topology export dgx-h100 -n 1 -o whole.json",
    ),
    (
        "What would NCCL_TOPO_DUMP_FILE hold?",
        "fabricsim topology export dgx-h100 -n 1 -o dump.xml",
    ),
    (
        "What would `nvidia-smi topo -m` print?",
        "fabricsim topology export dgx-h100 -n 1 --format smi",
    ),
];
