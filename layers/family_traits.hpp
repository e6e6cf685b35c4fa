#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::layers {

/// The properties of a family of models, as data: one row per family, in its folder (layers/models/<family>/). Code that would compare
/// a family's name with "gpt2" reads a property here instead.
struct FamilyTraits {
  std::string_view name;              // model.family; with other numerics it may name another family
  std::string_view numerics = "hf";   // model.numerics
  std::string_view config_type = {};  // model_type of its config.json, or MaxText's decoder_block
  // Keys of model.* that mean something in this family, beyond those that every family has.
  std::vector<std::string_view> keys = {};
  // Suffixes of tensors that checkpoints contain although they are no parameters.
  std::vector<std::string_view> ignored_tensors = {};
  // Prefixes of tensors that checkpoints may contain although they are no part of the model (modules that predict further tokens).
  std::vector<std::string_view> ignored_prefixes = {};
  // Prefix of layers' numbers, if checkpoints may have modules that predict further tokens as further layers, as DeepSeek-V3's do: those
  // beyond model.mtp_layers are no part of the model.
  std::string_view layer_prefix = {};
  // Prefixes of names that some checkpoints spell in another way, and that spelling.
  std::vector<std::pair<std::string_view, std::string_view>> other_spellings = {};
  // Prefix that names lack in some checkpoints, namely those of the model without its head.
  std::string_view optional_prefix = {};

  [[nodiscard]] bool reads(std::string_view key) const;
};

/// The families' traits, in the order in which they are listed. They live as long as the process.
[[nodiscard]] std::span<const FamilyTraits* const> family_traits();

/// nullptr if there is no family of this name and these numerics.
[[nodiscard]] const FamilyTraits* find_family_traits(std::string_view name, std::string_view numerics);

/// The names that model.family may have, each once, in the order in which they are listed.
[[nodiscard]] std::vector<std::string_view> family_names();

/// Whether some families read a key and others do not. Keys that no family lists belong to all families.
[[nodiscard]] bool is_family_key(std::string_view key);

}  // namespace millrace::layers
