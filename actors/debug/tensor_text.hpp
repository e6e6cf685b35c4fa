#pragma once

#include <string>
#include <vector>

#include "actors/debug/tensor_finder.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::actors {

/// Elements as numbers: floats as they are, integers without rounding up to 2⁵³.
[[nodiscard]] std::vector<double> numbers_of(const kernels::Tensor& tensor);

/// Shape, dtype, statistics and the first corner.
[[nodiscard]] std::string describe(const NamedTensor& named);
/// One line of a table: name, shape, minimum, maximum, mean, norm, not finite.
[[nodiscard]] std::string statistics_head();
[[nodiscard]] std::string statistics_line(const NamedTensor& named);
/// How often which size occurs: a bar for each power of ten, signs apart.
[[nodiscard]] std::string histogram(const NamedTensor& named);

/// One tensor in a file of its own, under its name; integers stay integers, bf16 stays bf16.
void dump(const NamedTensor& named, const std::string& path);
/// In words, of two tensors of one shape and type that are not equal.
[[nodiscard]] std::string differences(const kernels::Tensor& here, const kernels::Tensor& there);
/// Against the tensor of that name in a file, or against its only one. Throws Error(usage) where the shapes differ.
[[nodiscard]] std::string difference(const NamedTensor& named, const std::string& path);

}  // namespace millrace::actors
