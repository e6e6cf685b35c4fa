target_sources(millrace_layers PRIVATE
  attention/dot_product.cpp
  decoders/llama.cpp
  decoders/registry.cpp
  embedding.cpp
  initial_values.cpp
  hugging_face/weights.cpp
  losses/cross_entropy.cpp
  mlp.cpp
  model.cpp
  norm.cpp
  optimizers/learning_rate.cpp
  partition.cpp
  rotary.cpp)
