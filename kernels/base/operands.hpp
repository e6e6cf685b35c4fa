#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/base/check.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Throws Error(internal) unless `tensor` has this shape and one of these dtypes.
inline void check_operand(const char* component, const char* name, const Tensor& tensor, const Shape& shape,
                          std::initializer_list<DType> dtypes) {
  bool known = false;
  for (const DType dtype : dtypes) known = known || dtype == tensor.dtype;
  MILLRACE_CHECK(known, ExitCode::internal, component, "{} is {}, expected {}", name, to_string(tensor.dtype), to_string(*dtypes.begin()));
  bool same = tensor.shape.rank() == shape.rank();
  for (std::size_t axis = 0; same && axis < shape.rank(); ++axis) same = tensor.shape[axis] == shape[axis];
  MILLRACE_CHECK(same, ExitCode::internal, component, "{} is {}, expected {}", name, to_string(tensor.shape), to_string(shape));
  MILLRACE_CHECK(tensor.data != nullptr || tensor.elements() == 0, ExitCode::internal, component, "{} has no memory, expected {} bytes",
                 name, tensor.bytes());
}

/// Throws Error(internal) unless `tensor` has `rank` axes.
inline void check_rank(const char* component, const char* name, const Tensor& tensor, std::size_t rank) {
  MILLRACE_CHECK(tensor.shape.rank() == rank, ExitCode::internal, component, "{} is {}, expected {} axes", name, to_string(tensor.shape),
                 rank);
}

/// Throws Error(internal) unless `tokens` are whole rows of `sequence` tokens.
inline void check_rows(const char* component, std::int64_t tokens, std::int64_t sequence) {
  MILLRACE_CHECK(sequence > 0 && tokens % sequence == 0, ExitCode::internal, component, "{} tokens in rows of {}, expected whole rows",
                 tokens, sequence);
}

/// Throws Error(code) unless all of `indices`, i32 in host memory, are within [0, limit). `what` names one of them.
inline void check_indices(const char* component, const char* what, const Tensor& indices, std::int64_t limit,
                          ExitCode code = ExitCode::internal) {
  const auto* index = indices.as<std::int32_t>();
  for (std::int64_t i = 0; i < indices.elements(); ++i)
    MILLRACE_CHECK(index[i] >= 0 && index[i] < limit, code, component, "{} {} at position {}, expected 0 to {}", what, index[i], i,
                   limit - 1);
}

/// Throws Error(internal) unless `scratch` holds `bytes`.
inline void check_scratch(const char* component, Scratch scratch, std::size_t bytes) {
  MILLRACE_CHECK(scratch.size() >= bytes, ExitCode::internal, component, "scratch has {} bytes, expected {}", scratch.size(), bytes);
}

}  // namespace millrace::kernels
