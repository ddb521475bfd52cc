// Placeholder removed by the module's first file.
