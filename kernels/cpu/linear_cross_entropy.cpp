#include "kernels/linear_cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/buffer.hpp"
#include "kernels/cpu/aligned_scratch.hpp"
#include "kernels/cpu/linear_cross_entropy_loops.hpp"
#include "kernels/cpu/matmul.hpp"
#include "kernels/cpu/thread_range.hpp"
#include "kernels/elementwise.hpp"

// Computed in tiles. On a processor without bf16 instructions the whole computation is in fp32, and dh is rounded once; on one with
// them the tile of dl is rounded to bf16 before it is multiplied.
namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowGrain = 4;

float rounded(float value) { return to_float(to_bfloat16(value)); }

/// A block of the logits, of which only one is in memory at a time.
struct Tile {
  IndexRange tokens, columns;
};

/// Sizes of a tile: some columns of all tokens or, if that takes no more memory and still covers many tokens, all columns of some
/// tokens. With about a thousand columns (or as much memory) a tile, its weights and the rows of h stay in the outer caches, and
/// the products are large. Products of bf16 are so fast that the table, which is packed for each tile, is better packed half as often.
struct TileSizes {
  std::int64_t tokens, columns;

  TileSizes(std::int64_t all_tokens, std::int64_t vocabulary, DType compute, bool whole_rows) : tokens(all_tokens), columns(vocabulary) {
    constexpr std::int64_t min_tokens = 256;
    const std::int64_t aim = compute == DType::bf16 ? 2048 : 1024;
    if (vocabulary <= aim) return;
    const std::int64_t block = all_tokens * aim / vocabulary / kTokenUnit * kTokenUnit;
    if (whole_rows && block >= min_tokens)
      tokens = even_part(all_tokens, block, kTokenUnit);
    else
      columns = even_part(vocabulary, aim, kColumnUnit);
  }

 private:
  static constexpr std::int64_t kTokenUnit = 16, kColumnUnit = 64;
  /// Size of the parts when `count` is cut into as few parts of about at most `most` as possible, all equal but the last.
  static std::int64_t even_part(std::int64_t count, std::int64_t most, std::int64_t unit) {
    const std::int64_t parts = (count + most - 1) / most, part = (count + parts - 1) / parts;
    return std::min(count, (part + unit - 1) / unit * unit);
  }
};

/// Layout of the scratch. One layout serves all calls.
struct Layout {
  std::int64_t tokens, width, vocabulary;
  DType compute;
  bool widen;  // bf16 in memory, fp32 in the products
  bool round;  // round the table, and what is added to its gradient, to bf16
  TileSizes tile;
  std::size_t logits = 0, narrow = 0, h = 0, w = 0, dh = 0, maximum = 0, sum = 0, logit_of_target = 0, at_target = 0, dw = 0, matmul = 0;

  Layout(const Shape& h_shape, const Shape& w_shape, DType dtype, CrossEntropyOptions options)
      : tokens(h_shape[0]),
        width(h_shape[1]),
        vocabulary(w_shape[0]),
        compute(matmul_compute_dtype(dtype)),
        widen(compute != dtype),
        round(options.round_table),
        tile(tokens, vocabulary, compute, !widen && !round) {
    std::size_t end = 0;
    const auto take = [&end](std::int64_t elements, std::size_t size) {
      const std::size_t offset = end;
      end += align_up(static_cast<std::size_t>(elements) * size);
      return offset;
    };
    logits = take(tile.tokens * tile.columns, sizeof(float));
    narrow = take(compute == DType::bf16 ? tile.tokens * tile.columns : 0, sizeof(BFloat16));
    h = take(widen ? tokens * width : 0, sizeof(float));
    w = take(widen || (round && dtype == DType::f32) ? tile.columns * width : 0, sizeof(float));
    dh = take(dtype == DType::bf16 ? tokens * width : 0, sizeof(float));
    maximum = take(tokens, sizeof(float));
    sum = take(tokens, sizeof(double));
    logit_of_target = take(tokens, sizeof(float));
    at_target = take(tokens, sizeof(float));
    dw = take(round ? tile.columns * width : 0, sizeof(float));
    matmul = end;
  }

  /// A tile has all logits of a token, so the softmax's maximum and sum are known before the next tile.
  [[nodiscard]] bool whole_rows() const { return tile.columns == vocabulary; }
};

/// Scratch of the three products for a tile of these sizes.
std::size_t products_scratch(const Layout& layout, std::int64_t tokens, std::int64_t columns, int threads) {
  const Shape h{tokens, layout.width}, dl{tokens, columns}, w{columns, layout.width};
  const MatmulOptions logits{.transpose_b = true}, dh{.accumulate = true}, dw{.transpose_a = true, .accumulate = !layout.round};
  return std::max({cpu::matmul_scratch_bytes(h, w, layout.compute, DType::f32, logits, threads),
                   cpu::matmul_scratch_bytes(dl, w, layout.compute, DType::f32, {}, threads),
                   cpu::matmul_scratch_bytes(dl, w, layout.compute, DType::f32, dh, threads),
                   cpu::matmul_scratch_bytes(dl, h, layout.compute, DType::f32, dw, threads)});
}

/// One call: its operands in the dtype of the products, and the current tile.
class Tiles {
 public:
  Tiles(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, Scratch scratch)
      : context_(context), layout_(h.shape, w.shape, h.dtype, options), options_(options), w_(w), base_(aligned_begin(scratch)), h_(h) {
    matmul_scratch_ = scratch.subspan(static_cast<std::size_t>(base_ - scratch.data()) + layout_.matmul);
    if (layout_.widen) {
      h_ = make_tensor(base_ + layout_.h, DType::f32, h.shape);
      kernels::convert(context, h, h_);
    }
  }

  /// Calls body(tile) for every tile in order, after computing its logits.
  template <class Body>
  void for_each(Body&& body) {
    for (std::int64_t token = 0; token < layout_.tokens; token += layout_.tile.tokens)
      for (std::int64_t first = 0; first < layout_.vocabulary; first += layout_.tile.columns) {
        tile_ = {{token, std::min(token + layout_.tile.tokens, layout_.tokens)},
                 {first, std::min(first + layout_.tile.columns, layout_.vocabulary)}};
        select_weights();
        logits_ = make_tensor(base_ + layout_.logits, DType::f32, {tile_.tokens.size(), tile_.columns.size()});
        cpu::matmul(context_, h_tile(), w_tile_, logits_, {.transpose_b = true}, matmul_scratch_);
        shape_logits();
        body(tile_);
      }
  }

  /// Calls body(token) on the team, once for each token.
  template <class Body>
  void for_each_token(IndexRange tokens, Body&& body) const {
    context_.team().for_ranges(tokens.size(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) body(tokens.begin + token);
    });
  }

  /// Calls body(i) on the team for every i below count.
  template <class Body>
  void for_range(std::int64_t count, Body&& body) const {
    context_.team().for_ranges(count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  /// Adds this tile's part to its rows of dw.
  void add_weight_gradient(const Tensor& dw) const {
    const Shape shape{tile_.columns.size(), layout_.width};
    float* const sums = dw.as<float>() + tile_.columns.begin * layout_.width;
    if (!layout_.round) {
      cpu::matmul(context_, dl(), h_tile(), make_tensor(sums, DType::f32, shape), {.transpose_a = true, .accumulate = true},
                  matmul_scratch_);
      return;
    }
    const Tensor part = make_tensor(base_ + layout_.dw, DType::f32, shape);
    cpu::matmul(context_, dl(), h_tile(), part, {.transpose_a = true}, matmul_scratch_);
    for_range(shape.elements(), [&](std::int64_t i) { sums[i] += rounded(part.as<float>()[i]); });
  }
  /// Computes this tile's tokens of dh = dl · w, or adds to them.
  void multiply_by_weights(const Tensor& dh, bool accumulate) const {
    cpu::matmul(context_, dl(), w_tile_, rows_of(dh), {.accumulate = accumulate}, matmul_scratch_);
  }

  /// dl in the dtype of the products: it overwrites the logits, or is stored beside them in bf16.
  [[nodiscard]] Tensor dl() const {
    return layout_.compute == DType::bf16 ? make_tensor(base_ + layout_.narrow, DType::bf16, logits_.shape) : logits_;
  }
  /// Row of dl of a token if dl is bf16, else null.
  [[nodiscard]] BFloat16* narrow_dl(std::int64_t token) const {
    return layout_.compute == DType::bf16 ? dl().as<BFloat16>() + place_of(token) : nullptr;
  }
  void clear_dl(std::int64_t token) const {
    const std::size_t size = size_of(dl().dtype);
    std::fill_n(dl().data + static_cast<std::size_t>(place_of(token)) * size, static_cast<std::size_t>(logits_.shape[1]) * size,
                std::byte{0});
  }
  void put_dl(std::int64_t token, std::int64_t column, float value) const {
    if (BFloat16* const narrow = narrow_dl(token))
      narrow[column] = to_bfloat16(value);
    else
      logits_of(token)[column] = value;
  }
  [[nodiscard]] float* logits_of(std::int64_t token) const { return logits_.as<float>() + place_of(token); }
  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  [[nodiscard]] const Layout& layout() const { return layout_; }

 private:
  [[nodiscard]] std::int64_t place_of(std::int64_t token) const { return (token - tile_.tokens.begin) * logits_.shape[1]; }
  /// Rows of [T, D] for the tile's tokens.
  [[nodiscard]] Tensor rows_of(const Tensor& x) const {
    return make_tensor(x.data + static_cast<std::size_t>(tile_.tokens.begin * layout_.width) * size_of(x.dtype), x.dtype,
                       {tile_.tokens.size(), layout_.width});
  }
  [[nodiscard]] Tensor h_tile() const { return rows_of(h_); }
  void select_weights() {
    const Shape shape{tile_.columns.size(), layout_.width};
    const Tensor stored =
        make_tensor(w_.data + static_cast<std::size_t>(tile_.columns.begin * layout_.width) * size_of(w_.dtype), w_.dtype, shape);
    w_tile_ = stored;
    if (layout_.widen) {
      w_tile_ = make_tensor(base_ + layout_.w, DType::f32, shape);
      kernels::convert(context_, stored, w_tile_);
    } else if (layout_.round && w_.dtype == DType::f32) {
      w_tile_ = make_tensor(base_ + layout_.w, DType::f32, shape);
      for_range(shape.elements(), [&](std::int64_t i) { w_tile_.as<float>()[i] = rounded(stored.as<float>()[i]); });
    }
  }
  void shape_logits() {
    if (options_.scale == 1.0F && options_.soft_cap == 0.0F) return;
    for_each_token(tile_.tokens, [&](std::int64_t token) {
      pick_cross_entropy_shape()(logits_of(token), logits_.shape[1], options_.scale, options_.soft_cap);
    });
  }

  const ExecutionContext& context_;
  Layout layout_;
  CrossEntropyOptions options_;
  Tile tile_{};
  Tensor w_, w_tile_, logits_;
  std::byte* base_;
  Tensor h_;
  Scratch matmul_scratch_;
};

/// Results of a pass over the tiles for each token's row of logits.
struct Rows {
  float* maximum;
  double* sum;  // Σ exp(logit − maximum)
  float* logit_of_target;
  float* at_target;  // dl at the target

  explicit Rows(const Tiles& tiles)
      : maximum(tiles.at<float>(tiles.layout().maximum)),
        sum(tiles.at<double>(tiles.layout().sum)),
        logit_of_target(tiles.at<float>(tiles.layout().logit_of_target)),
        at_target(tiles.at<float>(tiles.layout().at_target)) {
    std::fill_n(maximum, tiles.layout().tokens, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, tiles.layout().tokens, 0.0);
  }
  [[nodiscard]] double log_sum_exp(std::int64_t token) const { return static_cast<double>(maximum[token]) + std::log(sum[token]); }
};

/// One call: its arguments, and its pass over the tiles.
class CrossEntropy {
 public:
  CrossEntropy(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets, CrossEntropyOptions options,
               float g, Scratch scratch)
      : tiles_(context, h, w, options, scratch), rows_(tiles_), w_(w), targets_(targets), options_(options), g_(g) {}

  [[nodiscard]] const Tiles& tiles() const { return tiles_; }

  void take_logits() {
    tiles_.for_each([&](const Tile& tile) { tiles_.for_each_token(tile.tokens, [&](std::int64_t token) { take(tile, token); }); });
  }

  /// Computes dh, f32, and dw if given: the softmax of a tile is taken before it is multiplied. For tiles of whole rows.
  void add_by_rows(const Tensor& dh, const Tensor* dw) {
    tiles_.for_each([&](const Tile& tile) {
      // The target's part is added to dh by itself, and to dw with the other columns.
      tiles_.for_each_token(tile.tokens, [&](std::int64_t token) {
        take(tile, token);
        rows_.at_target[token] = set_dl(tile, token, static_cast<float>(rows_.log_sum_exp(token)));
        if (is_valid(token)) tiles_.put_dl(token, target_of(token), 0);
      });
      tiles_.multiply_by_weights(dh, false);
      tiles_.for_each_token(tile.tokens, [&](std::int64_t token) {
        if (!is_valid(token)) return;
        blend_target(dh, token, 1);
        tiles_.put_dl(token, target_of(token), rows_.at_target[token]);
      });
      if (dw != nullptr) tiles_.add_weight_gradient(*dw);
    });
  }

  /// Computes dh, f32, for tiles of some columns: Σ exp(logit − maximum so far)·slope·w without the target, whose part is added
  /// when the sum of the exponentials is known.
  void add_by_columns(const Tensor& dh) {
    tiles_.for_each([&](const Tile& tile) {
      const bool first = tile.columns.begin == 0;
      tiles_.for_each_token(tile.tokens, [&](std::int64_t token) {
        if (!is_valid(token)) {
          take(tile, token);
          return tiles_.clear_dl(token);
        }
        note_target(tile, token);
        const float kept =
            pick_cross_entropy_weigh()(tiles_.logits_of(token), tile.columns.size(), {options_.scale, options_.soft_cap},
                                       column_of(tile, token), rows_.maximum[token], rows_.sum[token], tiles_.narrow_dl(token));
        if (!first && kept != 1.0F) pick_cross_entropy_blend()(row_of(dh, token), dh.shape[1], {.by_row = kept});
      });
      tiles_.multiply_by_weights(dh, !first);
    });
    tiles_.for_each_token({0, tiles_.layout().tokens}, [&](std::int64_t token) {
      if (is_valid(token)) blend_target(dh, token, static_cast<double>(g_) * coefficient_of(token) / rows_.sum[token]);
    });
  }

  void add_weight_gradient(const Tensor& log_sum_exp, const Tensor& dw) {
    tiles_.for_each([&](const Tile& tile) {
      tiles_.for_each_token(tile.tokens, [&](std::int64_t token) { set_dl(tile, token, log_sum_exp.as<float>()[token]); });
      tiles_.add_weight_gradient(dw);
    });
  }

  /// Writes the loss and the log-sum of every token.
  void write_losses(const Tensor& loss, const Tensor& log_sum_exp) const {
    double total = 0, z_total = 0;
    for (std::int64_t token = 0; token < targets_.shape[0]; ++token) {
      const double lse = rows_.log_sum_exp(token);
      log_sum_exp.as<float>()[token] = static_cast<float>(lse);
      if (!is_valid(token)) continue;
      const double z = static_cast<double>(options_.z_loss) * lse * lse;
      total += lse - static_cast<double>(rows_.logit_of_target[token]) + z;
      z_total += z;
    }
    loss.as<double>()[0] = total;
    loss.as<double>()[1] = z_total;
  }

 private:
  [[nodiscard]] std::int64_t target_of(std::int64_t token) const { return targets_.as<std::int32_t>()[token]; }
  [[nodiscard]] bool is_valid(std::int64_t token) const { return target_of(token) >= 0; }
  /// The target's column in the tile, or −1 if it is in another tile or masked.
  [[nodiscard]] std::int64_t column_of(const Tile& tile, std::int64_t token) const {
    const std::int64_t target = target_of(token);
    return target >= tile.columns.begin && target < tile.columns.end ? target - tile.columns.begin : -1;
  }
  [[nodiscard]] static float* row_of(const Tensor& x, std::int64_t token) { return x.as<float>() + token * x.shape[1]; }

  void note_target(const Tile& tile, std::int64_t token) const {
    const std::int64_t column = column_of(tile, token);
    if (column >= 0) rows_.logit_of_target[token] = tiles_.logits_of(token)[column];
  }
  void take(const Tile& tile, std::int64_t token) const {
    note_target(tile, token);
    pick_cross_entropy_take()(tiles_.logits_of(token), tile.columns.size(), rows_.maximum[token], rows_.sum[token]);
  }
  /// Replaces a token's logits by its row of dl; the row is 0 if the token is masked, whatever its logits are. Returns the value
  /// at the target.
  float set_dl(const Tile& tile, std::int64_t token, float log_sum_exp) const {
    if (!is_valid(token)) {
      tiles_.clear_dl(token);
      return 0;
    }
    const CrossEntropyRow row{.log_sum_exp = log_sum_exp,
                              .coefficient = 1.0F + 2.0F * options_.z_loss * log_sum_exp,
                              .g = g_,
                              .slope = {options_.scale, options_.soft_cap},
                              .target = column_of(tile, token)};
    return pick_cross_entropy_gradient()(tiles_.logits_of(token), tile.columns.size(), row, tiles_.narrow_dl(token));
  }

  [[nodiscard]] double coefficient_of(std::int64_t token) const {
    return 1 + 2 * static_cast<double>(options_.z_loss) * rows_.log_sum_exp(token);
  }
  /// Row of dh, times by_row, plus the target's part, in which coefficient·softmax − 1 is precise if the softmax is close to 1.
  void blend_target(const Tensor& dh, std::int64_t token, double by_row) const {
    const double logit = rows_.logit_of_target[token], above = logit - rows_.log_sum_exp(token);
    const double share = options_.soft_cap > 0 ? logit / static_cast<double>(options_.soft_cap) : 0;
    const double at_target = std::expm1(above) + (coefficient_of(token) - 1) * std::exp(above);
    const double by_weights = static_cast<double>(g_) * at_target * static_cast<double>(options_.scale) * (1 - share * share);
    CrossEntropyBlend blend{
        .by_row = static_cast<float>(by_row), .by_weights = static_cast<float>(by_weights), .round = options_.round_table};
    if (w_.dtype == DType::f32)
      blend.wide = w_.as<float>() + target_of(token) * dh.shape[1];
    else
      blend.narrow = w_.as<BFloat16>() + target_of(token) * dh.shape[1];
    pick_cross_entropy_blend()(row_of(dh, token), dh.shape[1], blend);
  }

  Tiles tiles_;
  Rows rows_;
  Tensor w_, targets_;
  CrossEntropyOptions options_;
  float g_;
};

/// Computes dh, loss and log_sum_exp, and dw if given and a tile has whole rows.
void input_gradient(CrossEntropy& head, const ExecutionContext& context, const Tensor& dh, const Tensor& loss, const Tensor& log_sum_exp,
                    const Tensor* dw) {
  const Tiles& tiles = head.tiles();
  const bool narrow_dh = dh.dtype == DType::bf16;
  const Tensor sums = narrow_dh ? make_tensor(tiles.at<float>(tiles.layout().dh), DType::f32, dh.shape) : dh;
  if (tiles.layout().whole_rows())
    head.add_by_rows(sums, dw);
  else
    head.add_by_columns(sums);
  head.write_losses(loss, log_sum_exp);
  if (narrow_dh) kernels::convert(context, sums, dh);
}

void linear_logits(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits,
                   Scratch scratch) {
  Tiles tiles(context, h, w, options, scratch);
  tiles.for_each([&](const Tile& tile) {
    tiles.for_each_token(tile.tokens, [&](std::int64_t token) {
      std::copy_n(tiles.logits_of(token), tile.columns.size(), logits.as<float>() + token * logits.shape[1] + tile.columns.begin);
    });
  });
}

/// The largest logit so far is kept where the loss keeps it.
void linear_argmax(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& entries,
                   Scratch scratch) {
  Tiles tiles(context, h, w, options, scratch);
  const Rows rows(tiles);
  tiles.for_each([&](const Tile& tile) {
    tiles.for_each_token(tile.tokens, [&](std::int64_t token) {
      const float* const logits = tiles.logits_of(token);
      const float* const largest = std::max_element(logits, logits + tile.columns.size());
      if (tile.columns.begin > 0 && !(*largest > rows.maximum[token])) return;
      rows.maximum[token] = *largest;
      entries.as<std::int32_t>()[token] = static_cast<std::int32_t>(tile.columns.begin + (largest - logits));
    });
  });
}

/// A tile with all of a token's logits serves both gradients.
int linear_cross_entropy_gradients_products(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                            const Processor& /*processor*/) {
  return Layout(h, w, dtype, options).whole_rows() ? 3 : 4;
}

std::size_t linear_cross_entropy_scratch_bytes(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                               const Processor& processor) {
  const Layout layout(h, w, dtype, options);
  std::size_t products = 0;
  if (layout.tokens > 0 && layout.vocabulary > 0)
    for (const std::int64_t tokens : {layout.tile.tokens, layout.tokens % layout.tile.tokens})
      for (const std::int64_t columns : {layout.tile.columns, layout.vocabulary % layout.tile.columns})
        if (tokens > 0 && columns > 0) products = std::max(products, products_scratch(layout, tokens, columns, processor.threads));
  return kAlignment + layout.matmul + products;
}

void linear_cross_entropy_forward(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                  CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp, Scratch scratch) {
  CrossEntropy head(context, h, w, targets, options, 0, scratch);
  head.take_logits();
  head.write_losses(loss, log_sum_exp);
}

void linear_cross_entropy_input_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                         const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                         const Tensor& log_sum_exp, Scratch scratch) {
  CrossEntropy head(context, h, w, targets, options, g.as<float>()[0], scratch);
  input_gradient(head, context, dh, loss, log_sum_exp, nullptr);
}

void linear_cross_entropy_weight_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                          const Tensor& log_sum_exp, const Tensor& g, CrossEntropyOptions options, const Tensor& dw,
                                          Scratch scratch) {
  CrossEntropy(context, h, w, targets, options, g.as<float>()[0], scratch).add_weight_gradient(log_sum_exp, dw);
}

void linear_cross_entropy_gradients(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                    const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                    const Tensor& log_sum_exp, const Tensor& dw, Scratch scratch) {
  CrossEntropy head(context, h, w, targets, options, g.as<float>()[0], scratch);
  input_gradient(head, context, dh, loss, log_sum_exp, &dw);
  if (!head.tiles().layout().whole_rows()) head.add_weight_gradient(log_sum_exp, dw);
}

const InTable in_table[] = {
    {Backend::cpu, table::linear_cross_entropy_forward, linear_cross_entropy_forward},
    {Backend::cpu, table::linear_cross_entropy_input_gradient, linear_cross_entropy_input_gradient},
    {Backend::cpu, table::linear_cross_entropy_weight_gradient, linear_cross_entropy_weight_gradient},
    {Backend::cpu, table::linear_cross_entropy_gradients, linear_cross_entropy_gradients},
    {Backend::cpu, table::linear_cross_entropy_gradients_products, linear_cross_entropy_gradients_products},
    {Backend::cpu, table::linear_logits, linear_logits},
    {Backend::cpu, table::linear_argmax, linear_argmax},
    {Backend::cpu, table::linear_cross_entropy_scratch_bytes, linear_cross_entropy_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
