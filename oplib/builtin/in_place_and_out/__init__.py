"""Forms that write: ``out=``, random fills, and values put at indices."""
