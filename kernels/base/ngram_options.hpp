#pragma once

#include <cstdint>
#include <vector>

#include "kernels/base/options.hpp"

namespace millrace::kernels {

/// The longest n-gram, and the most tables of a layer, that kernels/ngram_rows.hpp hashes.
inline constexpr std::int64_t max_ngram = 8;
inline constexpr std::int64_t max_ngram_tables = 256;

/// How n-grams are hashed to rows of tables (kernels/ngram_rows.hpp).
struct NgramOptions {
  std::int64_t sequence = 1;              // tokens of a row of text
  std::int32_t padding = 0;               // the id that stands before a row's first token
  std::vector<std::int32_t> multipliers;  // of the token itself, the one before it, …: n, 2 or more
  std::vector<std::int32_t> rows;         // of each table: the n − 1 orders one after the other, each with as many

  bool operator==(const NgramOptions&) const = default;

  static constexpr auto members() {
    return std::tuple(member("sequence", &NgramOptions::sequence), member("padding", &NgramOptions::padding),
                      member("multipliers", &NgramOptions::multipliers), member("rows", &NgramOptions::rows));
  }
};

}  // namespace millrace::kernels
