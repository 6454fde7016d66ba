mod sweep;
