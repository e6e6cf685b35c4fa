#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/io/file_dtype.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::layers {

/// A matrix of rows × columns, as columns × rows.
[[nodiscard]] std::vector<float> transposed(std::span<const float> matrix, std::int64_t rows, std::int64_t columns);

/// Passes elements to the sink in the file's dtype, in pieces that fit into a cache.
void write_elements(std::span<const float> elements, runtime::FileDType dtype, const runtime::ByteSink& sink);

}  // namespace millrace::layers
