#include "kernels/packing.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

std::int64_t round_up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }

/// A matrix, or a stack of matrices of one shape.
struct Stack {
  std::int64_t matrices, rows, columns;
  explicit Stack(const Shape& shape)
      : matrices(shape.rank() == 3 ? shape[0] : 1), rows(shape[shape.rank() - 2]), columns(shape[shape.rank() - 1]) {}
};

}  // namespace

bool packs_operands(Device device) { return device_type(device).facts().packs_operands && cpu_features().isa == Isa::avx512; }

DType packed_dtype(DType dtype) { return matmul_compute_dtype(dtype); }

std::int64_t packed_rows(std::int64_t k, DType packed) { return round_up(k, packed == DType::bf16 ? 32 : 16); }

std::size_t packed_bytes(std::int64_t k, std::int64_t n, DType dtype) {
  return align_up(static_cast<std::size_t>(packed_rows(k, packed_dtype(dtype)) * round_up(n, kPackedColumns)) *
                  size_of(packed_dtype(dtype)));
}

std::size_t packed_bytes(const Shape& b, bool transpose, DType dtype) {
  const Stack stack(b);
  return static_cast<std::size_t>(stack.matrices) *
         packed_bytes(transpose ? stack.columns : stack.rows, transpose ? stack.rows : stack.columns, dtype);
}

std::int64_t packed_place(std::int64_t k, std::int64_t row, std::int64_t column, DType packed) {
  const std::int64_t block = column / kPackedColumns * packed_rows(k, packed) * kPackedColumns;
  if (packed == DType::f32) return block + row * kPackedColumns + column % kPackedColumns;
  return block + (row / 2 * kPackedColumns + column % kPackedColumns) * 2 + row % 2;
}

void pack(const ExecutionContext& context, const Tensor& b, bool transpose, std::byte* packed) {
  constexpr const char* component = "kernels.pack";
  MILLRACE_CHECK(b.shape.rank() == 2 || b.shape.rank() == 3, ExitCode::internal, component,
                 "b is {}, expected a matrix or a stack of matrices", to_string(b.shape));
  check_operand(component, "b", b, b.shape, {DType::f32, DType::bf16});
  MILLRACE_CHECK(reinterpret_cast<std::uintptr_t>(packed) % kAlignment == 0, ExitCode::internal, component,
                 "packed begins {} bytes after a multiple of {}", reinterpret_cast<std::uintptr_t>(packed) % kAlignment, kAlignment);
  table::pack(context, b, transpose, packed);
}

void unpack(const std::byte* packed, bool transpose, const Tensor& b) {
  const DType kind = packed_dtype(b.dtype);
  const Stack stack(b.shape);
  const std::int64_t lines = stack.rows, width = stack.columns, k = transpose ? width : lines;
  const auto matrix_elements = static_cast<std::int64_t>(packed_bytes(k, transpose ? lines : width, b.dtype) / size_of(kind));
  for (std::int64_t row = 0; row < stack.matrices * lines; ++row)
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t line = row % lines;
      const std::int64_t place =
          row / lines * matrix_elements + (transpose ? packed_place(k, i, line, kind) : packed_place(k, line, i, kind));
      const auto at = static_cast<std::size_t>(row * width + i);
      if (b.dtype == DType::f32)
        b.as<float>()[at] = reinterpret_cast<const float*>(packed)[place];
      else if (kind == DType::bf16)
        b.as<BFloat16>()[at] = reinterpret_cast<const BFloat16*>(packed)[place];
      else
        b.as<BFloat16>()[at] = to_bfloat16(reinterpret_cast<const float*>(packed)[place]);
    }
}

}  // namespace millrace::kernels
