#include "kernels/cuda/grouped_matmul_hopper.hpp"

#include <initializer_list>
#include <limits>
#include <type_traits>

#include "kernels/cuda/grouped_product_hopper.cuh"
#include "kernels/cuda/hopper_device.hpp"
#include "kernels/cuda/tensor_map.hpp"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

using hopper::kTileRows;

/// Whether all of these sizes are positive multiples of 8 that coordinates of tiles have room for.
bool multiples_of_8(std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes)
    if (size <= 0 || size % 8 != 0 || size > std::numeric_limits<int>::max() / 2) return false;
  return true;
}
bool countable(std::int64_t rows, std::int64_t tiles) {
  return rows > 0 && rows <= std::numeric_limits<int>::max() / 2 && tiles <= std::numeric_limits<int>::max() / 2;
}

std::int64_t tiles_of(std::int64_t elements, std::int64_t each) { return (elements + each - 1) / each; }

/// Calls body with an integral_constant of 128 or 256.
template <class Body>
void with_width(int width, Body&& body) {
  if (width == 256)
    body(std::integral_constant<int, 256>{});
  else
    body(std::integral_constant<int, 128>{});
}

}  // namespace

bool grouped_matmul_on_hopper(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c,
                              const GroupedMatmulOptions& options, const Tensor* bias) {
  constexpr const char* component = "kernels.grouped_matmul";
  const std::int64_t rows = a.shape[0], k = a.shape[1], n = c.shape[1], experts = b.shape[0];
  if (a.dtype != DType::bf16 || !multiples_of_8({n, k}) || !packs_aligned({a.data, b.data, c.data})) return false;
  const HopperDevice& device = hopper_device_of(context, component);
  // Each group has at most one tile that is not whole.
  const std::int64_t row_tiles = rows / kTileRows + offsets.shape[0] - 1;
  if (!device.usable || !countable(rows, row_tiles * tiles_of(n, 128))) return false;
  with_width(hopper::tile_width(tiles_of(rows, kTileRows), n, device.processors), [&]<int Width>(std::integral_constant<int, Width>) {
    const hopper::Task task{
        .a = map_of_lines(component, a.data, {k, rows, 1}, kTileRows),
        .b = options.transpose_b ? map_of_lines(component, b.data, {k, n, experts}, Width)
                                 : map_of_lines(component, b.data, {n, k, experts}, hopper::kStageTerms),
        .c = c.data,
        .bias = bias == nullptr ? nullptr : bias->as<float>(),
        .m = 0,
        .n = static_cast<int>(n),
        .k = static_cast<int>(k),
        .experts = static_cast<int>(experts),
        .row_tiles = 0,
        .column_tiles = static_cast<int>(tiles_of(n, Width)),
        .groups = groups_of(context, offsets, rows),
    };
    const auto enqueue = [&]<class Work>(Work) {
      hopper::launch_product<Work>(compute_lane(context), component, device.processors, row_tiles * task.column_tiles, task);
    };
    with_type(c.dtype, [&]<class Result>(Result) {
      if (options.transpose_b)
        enqueue(hopper::GroupedRows<true, Result, Width>{});
      else
        enqueue(hopper::GroupedRows<false, Result, Width>{});
    });
  });
  return true;
}

bool grouped_weight_gradient_on_hopper(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets,
                                       const Tensor& c) {
  constexpr const char* component = "kernels.grouped_weight_gradient";
  const std::int64_t rows = a.shape[0], experts = c.shape[0], m = c.shape[1], n = c.shape[2];
  if (a.dtype != DType::bf16 || !multiples_of_8({m, n}) || !packs_aligned({a.data, b.data, c.data})) return false;
  const HopperDevice& device = hopper_device_of(context, component);
  const std::int64_t row_tiles = tiles_of(m, kTileRows);
  if (!device.usable || !countable(rows, experts * row_tiles * tiles_of(n, 128))) return false;
  with_width(hopper::tile_width(experts * row_tiles, n, device.processors), [&]<int Width>(std::integral_constant<int, Width>) {
    hopper::Task task{
        .a = map_of_lines(component, a.data, {m, rows, 1}, hopper::kStageTerms),
        .b = map_of_lines(component, b.data, {n, rows, 1}, hopper::kStageTerms),
        .c = c.data,
        .bias = nullptr,
        .m = static_cast<int>(m),
        .n = static_cast<int>(n),
        .k = 0,
        .experts = static_cast<int>(experts),
        .row_tiles = static_cast<int>(row_tiles),
        .column_tiles = static_cast<int>(tiles_of(n, Width)),
        .groups = {},
    };
    for (std::int64_t source = 0; source * experts + 1 < offsets.shape[0]; ++source) {
      task.groups = groups_of_source(context, offsets, rows, experts, source);
      hopper::launch_product<hopper::GroupedGradient<Width>>(compute_lane(context), component, device.processors,
                                                             experts * row_tiles * task.column_tiles, task);
    }
  });
  return true;
}

}  // namespace millrace::kernels::cuda
