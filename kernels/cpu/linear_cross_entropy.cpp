#include "kernels/cpu/linear_cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/elementwise.hpp"
#include "kernels/cpu/linear_cross_entropy_loops.hpp"
#include "kernels/cpu/matmul.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowGrain = 4;

float rounded(float value) { return to_float(to_bfloat16(value)); }

/// Columns of logits that stand in memory at once: the vocabulary in equal parts of about a thousand, so that a tile of logits, the weights
/// under it and the rows of h stay in the outer caches, and oneDNN's products are still large.
std::int64_t tile_columns(std::int64_t vocabulary) {
  constexpr std::int64_t aim = 1024, unit = 64;
  const std::int64_t tiles = std::max<std::int64_t>(1, (vocabulary + aim - 1) / aim);
  const std::int64_t columns = (vocabulary + tiles - 1) / tiles;
  return std::min(vocabulary, (columns + unit - 1) / unit * unit);
}

/// Where things lie in the scratch. One layout serves all calls.
struct Layout {
  std::int64_t tokens, width, vocabulary, tile;
  DType compute;
  bool widen;  // bf16 in memory, fp32 in the products
  bool round;  // the table and what is added to its gradient, to bf16
  std::size_t logits = 0, narrow = 0, h = 0, w = 0, dh = 0, maximum = 0, sum = 0, logit_of_target = 0, dw = 0, matmul = 0;

  Layout(const Shape& h_shape, const Shape& w_shape, DType dtype, CrossEntropyOptions options)
      : tokens(h_shape[0]),
        width(h_shape[1]),
        vocabulary(w_shape[0]),
        tile(tile_columns(vocabulary)),
        compute(matmul_compute_dtype(dtype)),
        widen(compute != dtype),
        round(options.round_table) {
    std::size_t end = 0;
    const auto take = [&end](std::int64_t elements, std::size_t size) {
      const std::size_t offset = end;
      end += align_up(static_cast<std::size_t>(elements) * size);
      return offset;
    };
    logits = take(tokens * tile, sizeof(float));
    narrow = take(compute == DType::bf16 ? tokens * tile : 0, sizeof(BFloat16));
    h = take(widen ? tokens * width : 0, sizeof(float));
    w = take(widen || (round && dtype == DType::f32) ? tile * width : 0, sizeof(float));
    dh = take(dtype == DType::bf16 ? tokens * width : 0, sizeof(float));
    maximum = take(tokens, sizeof(float));
    sum = take(tokens, sizeof(double));
    logit_of_target = take(tokens, sizeof(float));
    dw = take(round ? tile * width : 0, sizeof(float));
    matmul = end;
  }
};

/// Scratch of the three products for a tile of `columns`.
std::size_t products_scratch(const Layout& layout, const Shape& h, std::int64_t columns, int threads) {
  const Shape dl{h.dimension(0), columns}, w{columns, layout.width};
  const MatmulOptions logits{.transpose_b = true}, dh{.accumulate = true}, dw{.transpose_a = true, .accumulate = !layout.round};
  return std::max({cpu::matmul_scratch_bytes(h, w, layout.compute, DType::f32, logits, threads),
                   cpu::matmul_scratch_bytes(dl, w, layout.compute, DType::f32, {}, threads),
                   cpu::matmul_scratch_bytes(dl, w, layout.compute, DType::f32, dh, threads),
                   cpu::matmul_scratch_bytes(dl, h, layout.compute, DType::f32, dw, threads)});
}

/// One call: its operands in the dtype of the products, and the tile under work.
class Tiles {
 public:
  Tiles(const Stream& stream, const Tensor& h, const Tensor& w, CrossEntropyOptions options, Scratch scratch)
      : stream_(stream), layout_(h.shape, w.shape, h.dtype, options), options_(options), w_(w), base_(scratch.data()), h_(h) {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(base_) % kAlignment;
    if (misaligned != 0) base_ += kAlignment - misaligned;
    matmul_scratch_ = scratch.subspan(static_cast<std::size_t>(base_ - scratch.data()) + layout_.matmul);
    if (layout_.widen) {
      h_ = make_tensor(base_ + layout_.h, DType::f32, h.shape);
      convert(stream, h, h_);
    }
  }

  /// body(first column, columns) for every tile in order, with its logits computed.
  template <class Body>
  void for_each(Body&& body) {
    for (std::int64_t first = 0; first < layout_.vocabulary; first += layout_.tile) {
      const std::int64_t columns = std::min(layout_.tile, layout_.vocabulary - first);
      select_weights(first, columns);
      logits_ = make_tensor(base_ + layout_.logits, DType::f32, {layout_.tokens, columns});
      cpu::matmul(stream_, h_, w_tile_, logits_, {.transpose_b = true}, matmul_scratch_);
      shape_logits();
      body(first, columns);
    }
  }

  /// body(token) on the team, each token once.
  template <class Body>
  void for_each_token(Body&& body) {
    stream_.team().for_ranges(layout_.tokens, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) body(token);
    });
  }

  /// body(i) on the team for every i below count.
  template <class Body>
  void for_range(std::int64_t count, Body&& body) const {
    stream_.team().for_ranges(count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  /// dw's rows from `first` on, plus this tile's part.
  void add_weight_gradient(const Tensor& dw, std::int64_t first) {
    const Shape shape{logits_.shape[1], layout_.width};
    float* const sums = dw.as<float>() + first * layout_.width;
    if (!layout_.round) {
      cpu::matmul(stream_, dl(), h_, make_tensor(sums, DType::f32, shape), {.transpose_a = true, .accumulate = true}, matmul_scratch_);
      return;
    }
    const Tensor part = make_tensor(base_ + layout_.dw, DType::f32, shape);
    cpu::matmul(stream_, dl(), h_, part, {.transpose_a = true}, matmul_scratch_);
    for_range(shape.elements(), [&](std::int64_t i) { sums[i] += rounded(part.as<float>()[i]); });
  }

  /// dl in the dtype of the products: over the logits, or beside them in bf16.
  [[nodiscard]] Tensor dl() const {
    return layout_.compute == DType::bf16 ? make_tensor(base_ + layout_.narrow, DType::bf16, logits_.shape) : logits_;
  }
  [[nodiscard]] float* logits_of(std::int64_t token) const { return logits_.as<float>() + token * logits_.shape[1]; }
  [[nodiscard]] const Tensor& h() const { return h_; }
  [[nodiscard]] const Tensor& w_tile() const { return w_tile_; }
  [[nodiscard]] Scratch matmul_scratch() const { return matmul_scratch_; }
  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  [[nodiscard]] const Layout& layout() const { return layout_; }

 private:
  void select_weights(std::int64_t first, std::int64_t columns) {
    const Shape shape{columns, layout_.width};
    const Tensor stored = make_tensor(w_.data + static_cast<std::size_t>(first * layout_.width) * size_of(w_.dtype), w_.dtype, shape);
    w_tile_ = stored;
    if (layout_.widen) {
      w_tile_ = make_tensor(base_ + layout_.w, DType::f32, shape);
      convert(stream_, stored, w_tile_);
    } else if (layout_.round && w_.dtype == DType::f32) {
      w_tile_ = make_tensor(base_ + layout_.w, DType::f32, shape);
      for_range(shape.elements(), [&](std::int64_t i) { w_tile_.as<float>()[i] = rounded(stored.as<float>()[i]); });
    }
  }
  void shape_logits() {
    if (options_.scale == 1.0F && options_.soft_cap == 0.0F) return;
    stream_.team().for_ranges(layout_.tokens, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      // Rows lie one after the other.
      pick_cross_entropy_shape()(logits_of(begin), (end - begin) * logits_.shape[1], options_.scale, options_.soft_cap);
    });
  }

  const Stream& stream_;
  Layout layout_;
  CrossEntropyOptions options_;
  Tensor w_, w_tile_, logits_;
  std::byte* base_;
  Tensor h_;
  Scratch matmul_scratch_;
};

void add_losses(const Tiles& tiles, const Tensor& targets, CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp) {
  double total = 0, z_total = 0;
  for (std::int64_t token = 0; token < tiles.layout().tokens; ++token) {
    const double lse =
        static_cast<double>(tiles.at<float>(tiles.layout().maximum)[token]) + std::log(tiles.at<double>(tiles.layout().sum)[token]);
    log_sum_exp.as<float>()[token] = static_cast<float>(lse);
    if (targets.as<std::int32_t>()[token] < 0) continue;
    const double z = static_cast<double>(options.z_loss) * lse * lse;
    total += lse - static_cast<double>(tiles.at<float>(tiles.layout().logit_of_target)[token]) + z;
    z_total += z;
  }
  loss.as<double>()[0] = total;
  loss.as<double>()[1] = z_total;
}

}  // namespace

void linear_logits(const Stream& stream, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits,
                   Scratch scratch) {
  Tiles tiles(stream, h, w, options, scratch);
  tiles.for_each([&](std::int64_t first, std::int64_t columns) {
    tiles.for_each_token(
        [&](std::int64_t token) { std::copy_n(tiles.logits_of(token), columns, logits.as<float>() + token * logits.shape[1] + first); });
  });
}

std::size_t linear_cross_entropy_scratch_bytes(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options, int threads) {
  const Layout layout(h, w, dtype, options);
  std::size_t products = 0;
  if (layout.vocabulary > 0) {
    products = products_scratch(layout, h, layout.tile, threads);
    if (const std::int64_t rest = layout.vocabulary % layout.tile; rest != 0)
      products = std::max(products, products_scratch(layout, h, rest, threads));
  }
  return kAlignment + layout.matmul + products;
}

void linear_cross_entropy_forward(const Stream& stream, const Tensor& h, const Tensor& w, const Tensor& targets,
                                  CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp, Scratch scratch) {
  Tiles tiles(stream, h, w, options, scratch);
  auto* maximum = tiles.at<float>(tiles.layout().maximum);
  auto* sum = tiles.at<double>(tiles.layout().sum);
  auto* logit_of_target = tiles.at<float>(tiles.layout().logit_of_target);
  std::fill_n(maximum, tiles.layout().tokens, -std::numeric_limits<float>::infinity());
  std::fill_n(sum, tiles.layout().tokens, 0.0);
  tiles.for_each([&](std::int64_t first, std::int64_t columns) {
    tiles.for_each_token([&](std::int64_t token) {
      pick_cross_entropy_take()(tiles.logits_of(token), columns, maximum[token], sum[token]);
      const std::int64_t target = targets.as<std::int32_t>()[token] - first;
      if (target >= 0 && target < columns) logit_of_target[token] = tiles.logits_of(token)[target];
    });
  });
  add_losses(tiles, targets, options, loss, log_sum_exp);
}

void linear_cross_entropy_gradients(const Stream& stream, const Tensor& h, const Tensor& w, const Tensor& targets,
                                    const Tensor& log_sum_exp, const Tensor& g, CrossEntropyOptions options, const Tensor* dh,
                                    const Tensor* dw, Scratch scratch) {
  Tiles tiles(stream, h, w, options, scratch);
  const bool round_dh = dh != nullptr && dh->dtype == DType::bf16;
  const Tensor dh_sum = round_dh ? make_tensor(tiles.at<float>(tiles.layout().dh), DType::f32, h.shape) : (dh != nullptr ? *dh : Tensor{});
  tiles.for_each([&](std::int64_t first, std::int64_t columns) {
    const Tensor dl = tiles.dl();
    auto* narrow = dl.dtype == DType::bf16 ? dl.as<BFloat16>() : nullptr;
    tiles.for_each_token([&](std::int64_t token) {
      const std::int64_t target = targets.as<std::int32_t>()[token];
      if (target < 0) {  // masked, whatever its logits are
        std::fill_n(dl.data + static_cast<std::size_t>(token * columns) * size_of(dl.dtype),
                    static_cast<std::size_t>(columns) * size_of(dl.dtype), std::byte{0});
        return;
      }
      const float lse = log_sum_exp.as<float>()[token];
      const bool here = target >= first && target < first + columns;
      const CrossEntropyRow row{.log_sum_exp = lse,
                                .coefficient = 1.0F + 2.0F * options.z_loss * lse,
                                .g = g.as<float>()[0],
                                .scale = options.scale,
                                .soft_cap = options.soft_cap,
                                .target = here ? target - first : -1};
      pick_cross_entropy_gradient()(tiles.logits_of(token), columns, row, narrow == nullptr ? nullptr : narrow + token * columns);
    });
    if (dh != nullptr) cpu::matmul(stream, dl, tiles.w_tile(), dh_sum, {.accumulate = first > 0}, tiles.matmul_scratch());
    if (dw != nullptr) tiles.add_weight_gradient(*dw, first);
  });
  if (round_dh) convert(stream, dh_sum, *dh);
}

}  // namespace millrace::kernels::cpu
