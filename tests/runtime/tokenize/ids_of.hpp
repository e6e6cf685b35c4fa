#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// The ids of a text.
inline std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

}  // namespace millrace::runtime
