mod samples;
