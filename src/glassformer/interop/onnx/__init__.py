"""Models as ONNX graphs, written operation by operation.

Each module of a model has a function here that writes its formula in ONNX operations. torch's own
exporter traces the model instead: 9 to 18 seconds of computing for 2 to 6 layers, against a
fraction of one, with two more packages, and sizes that may differ become constants. What is
written twice is compared at every export.
"""
