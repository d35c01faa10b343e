mod files;
mod samples;
mod texts;
mod trace;
mod validation;
