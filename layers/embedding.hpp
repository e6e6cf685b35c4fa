#pragma once

#include <cstdint>
#include <string>

#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// A table [rows, width] from which tokens or positions are looked up. Its use is 0 where the model embeds its tokens, and another one in
/// each further place.
struct EmbeddingTable {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  int use = 0;
};

/// The rows of `tokens` i32 [T] → [T, width] in the compute dtype.
[[nodiscard]] runtime::ValueId token_embedding(runtime::ProgramBuilder& builder, runtime::ValueId tokens, const EmbeddingTable& table);

/// The learned embedding of each token's position in its document, i32 [T] → [T, width].
[[nodiscard]] runtime::ValueId position_embedding(runtime::ProgramBuilder& builder, runtime::ValueId positions,
                                                  const EmbeddingTable& table);

}  // namespace millrace::layers
