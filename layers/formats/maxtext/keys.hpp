#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// A decoder_block of MaxText.
struct MaxTextBlock {
  std::string name;
  bool attention = true;     // has what the keys of attention and MLP describe
  bool rotary = true;        // its positions turn queries and keys
  bool caps_scores = false;  // hands attn_logits_soft_cap to its attention
};

/// A key of MaxText with the only value whose arithmetic is here.
struct FixedKey {
  const char* key;
  runtime::Json value;
};

/// Also written out on export.
[[nodiscard]] const std::vector<FixedKey>& maxtext_fixed_keys();

/// Goes over every key of MaxText that its reader does not read: Error(model) where its value would change a number that is computed here;
/// the others have no effect in any of the five blocks and are known from then on.
void check_maxtext_keys(runtime::JsonReader& reader, const MaxTextBlock& block);

}  // namespace millrace::layers
