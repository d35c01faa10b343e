//! The tests of the whole program, in one binary: each file here is a module of it, so that the library is linked once
//! and all tests share the processors. One file: `cargo test --test suite optimize::`.
#![recursion_limit = "256"]

mod allocation;
mod architecture;
mod bound;
mod causes;
mod checkpoints;
mod cli;
mod communicators;
mod compare;
mod compare_asked;
mod compare_model;
mod comparison;
mod concurrent;
mod contention;
mod documentation;
mod ecmp;
mod explain;
mod fidelity;
mod folding;
mod hangs;
mod host;
mod import_corpus;
mod in_binary;
mod jobs;
mod kineto;
mod lab;
mod lessons;
mod memory;
mod money;
mod nccl_profiler;
mod offload;
mod optimize;
mod output;
mod published_memory;
mod robustness;
mod shared_gpus;
mod slurm;
mod storage;
mod streams;
mod sweep;
mod symmetric;
mod telemetry;
mod topology_files;
mod training_values;
mod validate;
