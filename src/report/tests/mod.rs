mod files;
mod samples;
mod texts;
mod trace;
mod training;
mod training_samples;
mod validation;
