target_sources(millrace_layers PRIVATE
  activation.cpp
  attention/delta_net_spec.cpp
  attention/dot_product.cpp
  attention/indexer.cpp
  attention/gated_delta_net.cpp
  attention/maxtext_delta_net.cpp
  attention/latent.cpp
  embedding.cpp
  formats/config_file.cpp
  formats/fixed_tensors.cpp
  formats/hugging_face/activation.cpp
  formats/hugging_face/causality.cpp
  formats/hugging_face/config.cpp
  formats/hugging_face/experts.cpp
  formats/hugging_face/ignored_keys.cpp
  formats/hugging_face/indexer.cpp
  formats/hugging_face/linear_attention.cpp
  formats/hugging_face/latent.cpp
  formats/hugging_face/no_rope.cpp
  formats/hugging_face/rope.cpp
  formats/hugging_face/routed_experts.cpp
  formats/hugging_face/unsupported.cpp
  formats/llmc_file.cpp
  formats/maxtext/chunks.cpp
  formats/maxtext/config.cpp
  formats/maxtext/experts.cpp
  formats/maxtext/keys.cpp
  formats/maxtext/linear_attention.cpp
  formats/maxtext/latent.cpp
  formats/maxtext/moba.cpp
  formats/model_folder.cpp
  formats/model_weights.cpp
  formats/stored_elements.cpp
  initial_values.cpp
  losses/cross_entropy.cpp
  mlp.cpp
  moe/capacity.cpp
  moe/maxtext_experts.cpp
  moe/mixture_of_experts.cpp
  moe/router_losses.cpp
  models/boundary.cpp
  models/gated_experts.cpp
  models/maxtext_family.cpp
  models/maxtext_layer.cpp
  models/model.cpp
  models/registry.cpp
  models/standard_family.cpp
  norm.cpp
  partition.cpp
  rotary.cpp
  streams.cpp)
# A family is a folder: its sources are found, so that a new one needs no line here.
file(GLOB family_sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS models/*/*.cpp)
target_sources(millrace_layers PRIVATE ${family_sources})
target_link_libraries(millrace_layers PRIVATE nlohmann_json::nlohmann_json)
