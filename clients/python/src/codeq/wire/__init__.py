"""The messages of the streams, generated from the proto files of the server; tests compare them."""
