#pragma once

#include <cstdint>
#include <vector>

#include "kernels/base/ngram_options.hpp"
#include "layers/model_config.hpp"

namespace millrace::layers {

/// The hash of each of config.layers (kernels/ngram_rows.hpp), but for the length of a row of text. A table has the next prime number of
/// rows from its order's base, or from one above the table before it, that no earlier table of any layer has. Multipliers are drawn by
/// NumPy's generator with the seed config.seed + 10007 · layer, so that products of ids below the number of compressed ids stay below 2³¹.
/// Throws Error(model) naming the key that does not fit, or the layer whose tables have more rows than 32-bit ids can name.
[[nodiscard]] std::vector<kernels::NgramOptions> engram_hashes(const EngramConfig& config);

/// The rows of all tables of a layer together.
[[nodiscard]] std::int64_t all_rows(const kernels::NgramOptions& hash);

}  // namespace millrace::layers
