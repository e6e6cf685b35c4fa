#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layers/parameter.hpp"
#include "runtime/io/file_dtype.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::layers {

/// A matrix of rows × columns, as columns × rows.
[[nodiscard]] std::vector<float> transposed(std::span<const float> matrix, std::int64_t rows, std::int64_t columns);

/// Rows and columns of a tensor of files that is stored transposed: its first axis, and all others.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> matrix_of(const kernels::Shape& stored);

/// The names of the tensors of files that make up a parameter: the parts of a stack, or one.
[[nodiscard]] std::vector<std::string> tensors_of(const ParameterSpec& spec);

/// These tensors, by name, from the elements of a parameter, or of its gradient, in the order of programs (see ParameterSpec::stored).
[[nodiscard]] std::vector<std::pair<std::string, std::vector<float>>> as_stored(const ParameterSpec& spec, std::span<const float> elements);

/// Passes elements to the sink in the file's dtype, in pieces that fit into a cache.
void write_elements(std::span<const float> elements, runtime::FileDType dtype, const runtime::ByteSink& sink);

}  // namespace millrace::layers
