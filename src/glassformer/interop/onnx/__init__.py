"""Models as ONNX graphs, which torch's exporter traces from them."""
