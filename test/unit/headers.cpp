// Carries the precompiled headers of the quick run.
