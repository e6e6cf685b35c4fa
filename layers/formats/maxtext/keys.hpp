#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// A decoder_block of MaxText.
struct MaxTextBlock {
  std::string name;
  bool attention = true;     // has attention and an MLP
  bool rotary = true;        // queries and keys are rotated
  bool caps_scores = false;  // uses attn_logits_soft_cap
};

/// A key of MaxText and the only supported value.
struct FixedKey {
  const char* key;
  runtime::Json value;
};

/// Also written out on export.
[[nodiscard]] const std::vector<FixedKey>& maxtext_fixed_keys();

/// Checks every key of MaxText that read_maxtext does not read: Error(model) if its value would change a number that is computed here;
/// the others have no effect in any of the five blocks and cause no warning.
void check_maxtext_keys(runtime::JsonReader& reader, const MaxTextBlock& block);

}  // namespace millrace::layers
