#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "actors/debug/tensor_finder.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::actors {

/// The elements as numbers: floats unchanged, integers exact up to 2⁵³.
[[nodiscard]] std::vector<double> numbers_of(const kernels::Tensor& tensor);

/// Shape, dtype, statistics and the first elements.
[[nodiscard]] std::string describe(const NamedTensor& named);
/// The elements of a slice ("0:4, :8", parse_slice) and their statistics; rows with as many columns as fit into `width` characters,
/// 0: with all.
[[nodiscard]] std::string describe(const NamedTensor& named, const std::string& slice, std::size_t width);
/// One line of a table: name, shape, minimum, maximum, mean, norm, number of values that are not finite.
[[nodiscard]] std::string statistics_head();
[[nodiscard]] std::string statistics_line(const NamedTensor& named);
/// A histogram of magnitudes: one bar per power of ten, separately by sign.
[[nodiscard]] std::string histogram(const NamedTensor& named);

/// Writes one tensor to a file under its name; integers stay integers, bf16 stays bf16.
void dump(const NamedTensor& named, const std::string& path);
/// Describes the differences of two tensors of the same shape and type that are not equal.
[[nodiscard]] std::string differences(const kernels::Tensor& here, const kernels::Tensor& there);
/// Compares with the tensor of that name in a file, or with the file's only tensor. Throws Error(usage) if the shapes differ.
[[nodiscard]] std::string difference(const NamedTensor& named, const std::string& path);

}  // namespace millrace::actors
