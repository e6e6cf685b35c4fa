#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace millrace::layers {

/// What a family of models is, as data: one row per family, in its folder (layers/models/<family>/). Whoever would ask "is it a GPT-2?"
/// asks here for what it wants to know.
struct FamilyTraits {
  std::string_view name;              // model.family
  std::string_view numerics = "hf";   // what model.numerics has to be
  std::string_view config_type = {};  // model_type of its config.json, or MaxText's decoder_block
  // Keys of model.* that mean something in this family, beyond those that every family has.
  std::vector<std::string_view> keys = {};
  // Tensors that checkpoints carry without being parameters end so.
  std::vector<std::string_view> ignored_tensors = {};
  // What the names of some checkpoints lack at their front, those of the model without its head.
  std::string_view optional_prefix = {};

  [[nodiscard]] bool reads(std::string_view key) const;
};

/// The families' traits, in the order in which they are listed. They live as long as the process.
[[nodiscard]] std::span<const FamilyTraits* const> family_traits();

/// Null if there is no such family.
[[nodiscard]] const FamilyTraits* find_family_traits(std::string_view name);

/// Whether some families read a key and others do not. The keys that no family lists belong to all.
[[nodiscard]] bool is_family_key(std::string_view key);

}  // namespace millrace::layers
