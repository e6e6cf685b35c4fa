#pragma once

#include <string>
#include <vector>

#include "layers/json_reader.hpp"

namespace millrace::layers {

/// A key of MaxText with the only value whose arithmetic is here.
struct FixedKey {
  const char* key;
  Json value;
};

/// Also written out on export.
[[nodiscard]] const std::vector<FixedKey>& maxtext_fixed_keys();

/// Goes over every key of MaxText that its reader does not read: Error(model) where its value would change a number that is computed here;
/// the others have no effect in any of the five blocks and are known from then on. `block` is decoder_block.
void check_maxtext_keys(JsonReader& reader, const std::string& block);

}  // namespace millrace::layers
