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
  /// A token's row of dl where dl is bf16, else null.
  [[nodiscard]] BFloat16* narrow_dl(std::int64_t token) const {
    return layout_.compute == DType::bf16 ? dl().as<BFloat16>() + token * logits_.shape[1] : nullptr;
  }
  void clear_dl(std::int64_t token) const {
    const std::size_t row = static_cast<std::size_t>(logits_.shape[1]) * size_of(dl().dtype);
    std::fill_n(dl().data + static_cast<std::size_t>(token) * row, row, std::byte{0});
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

/// A token's column in the tile of `columns` from `first` on, or −1 where its target is elsewhere or masked.
std::int64_t column_of(const Tensor& targets, std::int64_t token, std::int64_t first, std::int64_t columns) {
  const std::int64_t column = targets.as<std::int32_t>()[token] - first;
  return targets.as<std::int32_t>()[token] >= 0 && column >= 0 && column < columns ? column : -1;
}

/// What a pass over the tiles learns of each token's row of logits.
struct Rows {
  float* maximum;
  double* sum;  // of exp(logit − maximum)
  float* logit_of_target;

  explicit Rows(const Tiles& tiles)
      : maximum(tiles.at<float>(tiles.layout().maximum)),
        sum(tiles.at<double>(tiles.layout().sum)),
        logit_of_target(tiles.at<float>(tiles.layout().logit_of_target)) {
    std::fill_n(maximum, tiles.layout().tokens, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, tiles.layout().tokens, 0.0);
  }
  [[nodiscard]] double log_sum_exp(std::int64_t token) const { return static_cast<double>(maximum[token]) + std::log(sum[token]); }
};

void add_losses(const Rows& rows, const Tensor& targets, CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp) {
  double total = 0, z_total = 0;
  for (std::int64_t token = 0; token < targets.shape[0]; ++token) {
    const double lse = rows.log_sum_exp(token);
    log_sum_exp.as<float>()[token] = static_cast<float>(lse);
    if (targets.as<std::int32_t>()[token] < 0) continue;
    const double z = static_cast<double>(options.z_loss) * lse * lse;
    total += lse - static_cast<double>(rows.logit_of_target[token]) + z;
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
  const Rows rows(tiles);
  tiles.for_each([&](std::int64_t first, std::int64_t columns) {
    tiles.for_each_token([&](std::int64_t token) {
      pick_cross_entropy_take()(tiles.logits_of(token), columns, rows.maximum[token], rows.sum[token]);
      const std::int64_t target = column_of(targets, token, first, columns);
      if (target >= 0) rows.logit_of_target[token] = tiles.logits_of(token)[target];
    });
  });
  add_losses(rows, targets, options, loss, log_sum_exp);
}

void linear_cross_entropy_input_gradient(const Stream& stream, const Tensor& h, const Tensor& w, const Tensor& targets, const Tensor& g,
                                         CrossEntropyOptions options, const Tensor& dh, const Tensor& loss, const Tensor& log_sum_exp,
                                         Scratch scratch) {
  Tiles tiles(stream, h, w, options, scratch);
  const Rows rows(tiles);
  const std::int64_t width = tiles.layout().width;
  const bool narrow_dh = dh.dtype == DType::bf16;
  const Tensor sums = narrow_dh ? make_tensor(tiles.at<float>(tiles.layout().dh), DType::f32, h.shape) : dh;
  const auto sums_of = [&](std::int64_t token) { return sums.as<float>() + token * width; };
  // Σ exp(logit − maximum)·slope·w over the vocabulary without the target, whose part joins when the sum of the exponentials is known.
  tiles.for_each([&](std::int64_t first, std::int64_t columns) {
    const Tensor weights = tiles.dl();
    tiles.for_each_token([&](std::int64_t token) {
      float* const logits = tiles.logits_of(token);
      if (targets.as<std::int32_t>()[token] < 0) {
        pick_cross_entropy_take()(logits, columns, rows.maximum[token], rows.sum[token]);
        return tiles.clear_dl(token);
      }
      const std::int64_t target = column_of(targets, token, first, columns);
      if (target >= 0) rows.logit_of_target[token] = logits[target];
      const float kept = pick_cross_entropy_weigh()(logits, columns, {options.scale, options.soft_cap}, target, rows.maximum[token],
                                                    rows.sum[token], tiles.narrow_dl(token));
      if (first > 0 && kept != 1.0F) pick_cross_entropy_blend()(sums_of(token), width, {.by_row = kept});
    });
    cpu::matmul(stream, weights, tiles.w_tile(), sums, {.accumulate = first > 0}, tiles.matmul_scratch());
  });
  add_losses(rows, targets, options, loss, log_sum_exp);
  const double by_loss = g.as<float>()[0];
  tiles.for_each_token([&](std::int64_t token) {
    const std::int32_t target = targets.as<std::int32_t>()[token];
    if (target < 0) return;
    const double lse = rows.log_sum_exp(token), coefficient = 1 + 2 * static_cast<double>(options.z_loss) * lse;
    const double logit = rows.logit_of_target[token], share = options.soft_cap > 0 ? logit / static_cast<double>(options.soft_cap) : 0;
    // coefficient·softmax − 1, precise where the softmax is close to 1
    const double at_target = std::expm1(logit - lse) + (coefficient - 1) * std::exp(logit - lse);
    CrossEntropyBlend blend{
        .by_row = static_cast<float>(by_loss * coefficient / rows.sum[token]),
        .by_weights = static_cast<float>(by_loss * at_target * static_cast<double>(options.scale) * (1 - share * share)),
        .round = options.round_table};
    if (w.dtype == DType::f32)
      blend.wide = w.as<float>() + target * width;
    else
      blend.narrow = w.as<BFloat16>() + target * width;
    pick_cross_entropy_blend()(sums_of(token), width, blend);
  });
  if (narrow_dh) convert(stream, sums, dh);
}

void linear_cross_entropy_weight_gradient(const Stream& stream, const Tensor& h, const Tensor& w, const Tensor& targets,
                                          const Tensor& log_sum_exp, const Tensor& g, CrossEntropyOptions options, const Tensor& dw,
                                          Scratch scratch) {
  Tiles tiles(stream, h, w, options, scratch);
  tiles.for_each([&](std::int64_t first, std::int64_t columns) {
    tiles.for_each_token([&](std::int64_t token) {
      if (targets.as<std::int32_t>()[token] < 0) return tiles.clear_dl(token);  // masked, whatever its logits are
      const float lse = log_sum_exp.as<float>()[token];
      const CrossEntropyRow row{.log_sum_exp = lse,
                                .coefficient = 1.0F + 2.0F * options.z_loss * lse,
                                .g = g.as<float>()[0],
                                .slope = {options.scale, options.soft_cap},
                                .target = column_of(targets, token, first, columns)};
      pick_cross_entropy_gradient()(tiles.logits_of(token), columns, row, tiles.narrow_dl(token));
    });
    tiles.add_weight_gradient(dw, first);
  });
}

}  // namespace millrace::kernels::cpu
