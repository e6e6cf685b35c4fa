#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct HeadPartsOptions {
  std::int64_t heads = 1;   // H
  std::int64_t shared = 0;  // number of the last parts that are a single head's and stand for every head

  static constexpr auto members() {
    return std::tuple(member("heads", &HeadPartsOptions::heads), member("shared", &HeadPartsOptions::shared));
  }
};

/// Assembles heads from parts, as multi-head latent attention does (DeepSeek-V2, arXiv 2405.04434, section 2.1.3): the features of head h
/// of y [T, H·(w₀ + w₁ + …)] are those of head h of part 0, then of part 1, and so on. Part i is [T, H·wᵢ], or [T, wᵢ] if it is shared, and
/// has y's dtype. Nothing is rounded.
void join_heads(const ExecutionContext& context, std::span<const Tensor> parts, HeadPartsOptions options, const Tensor& y);

/// Takes the heads of x [T, H·(w₀ + w₁ + …)] apart: the inverse of join_heads without shared parts, and its gradient with any. A shared
/// part is the sum over the heads, in fp32 in order of the heads, rounded once. The bits do not depend on the thread count.
void split_heads(const ExecutionContext& context, const Tensor& x, HeadPartsOptions options, std::span<const Tensor> parts);

/// Whether part `i` of `count` is shared.
[[nodiscard]] constexpr bool is_shared_part(std::size_t i, std::size_t count, std::int64_t shared) {
  return i + static_cast<std::size_t>(shared) >= count;
}

/// Where a part is in the whole, in elements.
struct HeadPart {
  std::int64_t heads, head_width;  // of the whole
  std::int64_t width, offset;      // of the part in a head
  bool shared;
};

/// Calls body(part, where it is) for every part, in order.
template <class Body>
void for_head_parts(const Tensor& whole, HeadPartsOptions options, std::span<const Tensor> parts, Body&& body) {
  HeadPart place{options.heads, whole.shape[1] / options.heads, 0, 0, false};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    place.shared = is_shared_part(i, parts.size(), options.shared);
    place.width = place.shared ? parts[i].shape[1] : parts[i].shape[1] / options.heads;
    body(parts[i], place);
    place.offset += place.width;
  }
}

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(join_heads)> join_heads("join_heads");
inline constinit Kernel<decltype(split_heads)> split_heads("split_heads");
}  // namespace table

}  // namespace millrace::kernels
