#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/attention_temperature.hpp"
#include "kernels/balance_loss.hpp"
#include "kernels/base/activation.hpp"
#include "kernels/base/capacity_options.hpp"
#include "kernels/base/clamped_glu_options.hpp"
#include "kernels/base/exchange_round_options.hpp"
#include "kernels/base/hyper_gates_options.hpp"
#include "kernels/base/ngram_options.hpp"
#include "kernels/base/route_options.hpp"
#include "kernels/base/shift_options.hpp"
#include "kernels/choose_keys.hpp"
#include "kernels/delta_gates.hpp"
#include "kernels/gated_delta_rule.hpp"
#include "kernels/grouped_matmul.hpp"
#include "kernels/head_parts.hpp"
#include "kernels/indexer_loss.hpp"
#include "kernels/l2_norm.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/short_convolution.hpp"
#include "kernels/sparse_attention.hpp"
#include "runtime/program/builder.hpp"

/// The operations that layers write with: each appends one operation and returns its result. T = rows · sequence tokens of a microbatch.
/// An operation's options are those of its kernel. The shape rule, gradients, cost and kernel of each are in ops/<name>.cpp; those of
/// linear, which is a product, are in ops/matmul.cpp.
namespace millrace::runtime {

/// table[tokens]: tokens i32 [T], table [V, D] → [T, D]; or tokens [T, n], several rows for each token one after the other → [T, n·D].
ValueId embedding(ProgramBuilder& builder, ValueId tokens, ValueId table, std::string_view name);
/// x · weightᵀ: x [T, K], weight [N, K] as checkpoints store it → [T, N] in the compute dtype.
ValueId linear(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name);
/// x · weight: x [T, K], weight [K, N], inputs first, as GPT-2 and MaxText store it.
ValueId linear_input_major(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name);
/// Products of experts, rows that are neighbours with one matrix each (kernels/grouped_matmul.hpp): rows[r] · weight[e]ᵀ (+ bias[e]) for
/// the rows r of group e, offsets[e] ≤ r < offsets[e + 1]. rows [R, K], weight [E, N, K] as checkpoints store it, offsets i32 [E + 1], or
/// [S·E + 1] for the groups of S sources, bias f32 [E, N] → [R, N] in the compute dtype.
ValueId grouped_linear(ProgramBuilder& builder, ValueId rows, ValueId weight, ValueId offsets, std::string_view name, ValueId bias = {});
/// rows[r] · weight[e] (+ bias[e]): weight [E, K, N], inputs first, as GPT-OSS and Llama 4 store it.
ValueId grouped_linear_input_major(ProgramBuilder& builder, ValueId rows, ValueId weight, ValueId offsets, std::string_view name,
                                   ValueId bias = {});
/// x + bias: x [T, N], bias f32 [N].
ValueId add_bias(ProgramBuilder& builder, ValueId x, ValueId bias, std::string_view name);
/// x · weightᵀ with fp32 results, as the loss computes them, without gradient: logits for sampling and parity.
ValueId logits(ProgramBuilder& builder, ValueId x, ValueId weight, const kernels::CrossEntropyOptions& options, std::string_view name);
/// x [T, n·D] → same: each of a token's n vectors is normalised separately, all with one weight f32 [D], or with weights f32 [n, D] of
/// their own.
ValueId rms_norm(ProgramBuilder& builder, ValueId x, ValueId weight, const kernels::RmsNormOptions& options, std::string_view name);
/// x [T, n·width] → same: rms_norm with weights of one, which are no parameters: x · 1/sqrt(mean(x²) + epsilon) of each vector. Llama 4's
/// L2 norm of queries and keys is this one (it divides by a root mean square, despite its name), and so is Gemma 4's norm of values.
ValueId rms_norm_without_weight(ProgramBuilder& builder, ValueId x, std::int64_t width, const kernels::RmsNormOptions& options,
                                std::string_view name);
/// x [T, D], weight and bias f32 [D] → same.
ValueId layer_norm(ProgramBuilder& builder, ValueId x, ValueId weight, ValueId bias, const kernels::LayerNormOptions& options,
                   std::string_view name);
/// x [T, heads·head_dim] → same; inverse_frequencies f32 [(head_dim − unrotated)/2].
ValueId rope(ProgramBuilder& builder, ValueId x, ValueId positions, ValueId inverse_frequencies, const kernels::RopeOptions& options,
             std::string_view name);
/// q [T, H·head_dim], k [T, K·head_dim], v [T, K·v_head_dim], segments i32 [T] → [T, H·v_head_dim] (v_head_dim 0: head_dim); within the
/// builder's rows: `sequence` and `one_segment` are the builder's, whatever the options say (but without causal no row is promised to be
/// one segment, since padding is another). `sinks` f32 [H]: a parameter that joins the softmax's sum of each query head. `choice`, given if
/// options.block > 0: the blocks of keys that each query sees, from choose_blocks.
ValueId attention(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId segments, const kernels::AttentionOptions& options,
                  std::string_view name, ValueId sinks = {}, ValueId choice = {});
/// The blocks of keys that each query attends to: q [T, H·head_dim], k [T, K·head_dim] → i32 [T, H·W], without gradient
/// (kernels/choose_blocks.hpp); `sequence` is the builder's, whatever the options say.
ValueId choose_blocks(ProgramBuilder& builder, ValueId q, ValueId k, const kernels::ChooseBlocksOptions& options, std::string_view name);
/// The gated delta rule: q and k [T, Hk·head_k_dim], v [T, Hv·head_v_dim], g and beta f32 [T, Hv], segments i32 [T] → [T, Hv·head_v_dim];
/// `sequence` and `one_segment` are the builder's, whatever the options say.
ValueId gated_delta_rule(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId g, ValueId beta, ValueId segments,
                         const kernels::GatedDeltaRuleOptions& options, std::string_view name);
/// {g, beta} of the delta rule, f32 [T, H]: a and b [T, H], a_log and dt_bias f32 [H].
std::pair<ValueId, ValueId> delta_gates(ProgramBuilder& builder, ValueId a, ValueId b, ValueId a_log, ValueId dt_bias,
                                        const kernels::DeltaGatesOptions& options, std::string_view name);
/// x [T, n·width] → same: each of a token's n vectors is divided by its length.
ValueId l2_norm(ProgramBuilder& builder, ValueId x, const kernels::L2NormOptions& options, std::string_view name);
/// A causal convolution of each channel along its row: x [T, C], weight [C, 1, W] of f32 or the compute dtype, segments i32 [T] → [T, C];
/// `sequence` and `one_segment` are the builder's, whatever the options say.
ValueId short_convolution(ProgramBuilder& builder, ValueId x, ValueId weight, ValueId segments,
                          const kernels::ShortConvolutionOptions& options, std::string_view name);
/// x [T, N] times a factor that rises slowly with the position: positions i32 [T] → same.
ValueId attention_temperature(ProgramBuilder& builder, ValueId x, ValueId positions, const kernels::AttentionTemperatureOptions& options,
                              std::string_view name);
/// activation(x) and activation(gate) · up; kernels::Activation says which functions these are. `parameters`: the learned numbers of an
/// activation that has some (kernels::activation_parameters), each a parameter f32 [1].
ValueId activate(ProgramBuilder& builder, kernels::Activation activation, ValueId x, std::string_view name,
                 std::span<const ValueId> parameters = {});
ValueId glu(ProgramBuilder& builder, kernels::Activation activation, ValueId gate, ValueId up, std::string_view name,
            std::span<const ValueId> parameters = {});
/// (clamped up + offset) · g · σ(steepness · g), g the clamped gate (kernels/clamped_glu.hpp): gate and up [T, F] → same.
ValueId clamped_glu(ProgramBuilder& builder, ValueId gate, ValueId up, const kernels::ClampedGluOptions& options, std::string_view name);
/// glu with SiLU.
ValueId swiglu(ProgramBuilder& builder, ValueId gate, ValueId up, std::string_view name);
ValueId add(ProgramBuilder& builder, ValueId a, ValueId b, std::string_view name);
/// x plus sines and cosines of the positions: x [T, D], positions i32 [T], inverse_timescales f32 [D/2] → same.
ValueId add_sinusoid(ProgramBuilder& builder, ValueId x, ValueId positions, ValueId inverse_timescales, std::string_view name);
/// x · factor; the factor rounded to the compute dtype first, as a tensor library does.
ValueId scale(ProgramBuilder& builder, ValueId x, double factor, std::string_view name);
/// x times learned numbers (kernels/learned_scale.hpp): x [T, N] and a parameter `numbers` f32 [1] → same; or f32 [E] with `which` i32 [T,
/// N], which of them multiplies each element. Numbers that are not trained have no gradient.
ValueId learned_scale(ProgramBuilder& builder, ValueId x, ValueId numbers, std::string_view name, ValueId which = {});
/// x with features dropped at `rate` in training: which ones depends on (seed, sample, the operation's name with its scope, feature) alone.
ValueId dropout(ProgramBuilder& builder, ValueId x, double rate, std::string_view name);
/// Splits the columns of x [T, N]: one result [T, width] per width; the widths add up to N.
std::vector<ValueId> split(ProgramBuilder& builder, ValueId x, const std::vector<std::int64_t>& widths, std::string_view name);
/// Puts matrices side by side: [T, N₀], [T, N₁], … of one dtype → [T, N₀ + N₁ + …].
ValueId join(ProgramBuilder& builder, const std::vector<ValueId>& parts, std::string_view name);
/// A field of the batch, `distance` tokens later in the same document (kernels/shift_left.hpp): x i32 [T], segments i32 [T] → i32 [T], the
/// filling where the row or the document ends. The length of a row is the builder's, whatever the options say.
ValueId shift_left(ProgramBuilder& builder, ValueId x, ValueId segments, const kernels::ShiftOptions& options, std::string_view name);
/// The softmax over each row: x [T, N] → same.
ValueId softmax(ProgramBuilder& builder, ValueId x, std::string_view name);
/// x in fp32: x [T, D] f32 or bf16 → f32 [T, D]; x itself if it is f32 already. The gradient is rounded to x's dtype.
ValueId to_f32(ProgramBuilder& builder, ValueId x, std::string_view name);

/// The experts that each token chose, best first, and their weights.
struct Routing {
  ValueId weights;  // f32 [T, K]
  ValueId experts;  // i32 [T, K], each within [0, E); without gradient
};
/// logits [T, E], f32 or bf16, and `bias` f32 [E], which is given if options.bias says that there is one: a parameter, or a constant that
/// serves the choice alone. Only a bias that is part of the score has a gradient. K is options.experts_per_token.
Routing route(ProgramBuilder& builder, ValueId logits, const kernels::RouteOptions& options, std::string_view name, ValueId bias = {});
/// Splits every head of x [T, heads·N] into parts: one result [T, heads·width] per width; the widths add up to N.
std::vector<ValueId> split_heads(ProgramBuilder& builder, ValueId x, std::int64_t heads, const std::vector<std::int64_t>& widths,
                                 std::string_view name);
/// Puts parts of every head one after the other: [T, heads·w₀], [T, heads·w₁], … → [T, heads·(w₀ + w₁ + …)]. The last options.shared parts
/// are [T, w], a single head that stands for every one.
ValueId join_heads(ProgramBuilder& builder, const std::vector<ValueId>& parts, const kernels::HeadPartsOptions& options,
                   std::string_view name);
/// The gates of hyper-connections (kernels/hyper_gates.hpp), k streams: how much of each a branch reads [T, k], how much of its result each
/// gets [T, k], and how much of each stream goes on in each [T, k·k].
struct HyperGateParts {
  ValueId pre, post, map;
};
/// x [T, 2·k + kernels::residual_logits(options)] in the compute dtype.
HyperGateParts hyper_gates(ProgramBuilder& builder, ValueId x, const kernels::HyperGatesOptions& options, std::string_view name);
/// x [T, D] as k equal streams [T, k·D], and the sum of streams [T, k·D] → [T, D] (kernels/hyper_streams.hpp).
ValueId expand_streams(ProgramBuilder& builder, ValueId x, std::int64_t streams, std::string_view name);
ValueId reduce_streams(ProgramBuilder& builder, ValueId x, std::int64_t streams, std::string_view name);
/// What a branch reads of streams [T, k·D] by pre [T, k] → [T, D].
ValueId collect_streams(ProgramBuilder& builder, ValueId streams, ValueId pre, std::string_view name);
/// The streams [T, k·D] mixed by map [T, k·k], with the branch's result v [T, D] by post [T, k] → [T, k·D].
ValueId spread_streams(ProgramBuilder& builder, ValueId streams, ValueId v, ValueId post, ValueId map, std::string_view name);
/// The rows that each token looks up in an n-gram memory (kernels/ngram_rows.hpp): tokens i32 [T], compressed ids → i32 [T, tables]; rows
/// of text are the builder's, whatever the options say.
ValueId ngram_rows(ProgramBuilder& builder, ValueId tokens, const kernels::NgramOptions& options, std::string_view name);
/// v [T, D] for each of k streams, through a gate that the agreement of q and keys [T, k·D] opens (kernels/context_gate.hpp) → [T, k·D].
ValueId context_gate(ProgramBuilder& builder, ValueId q, ValueId keys, ValueId v, std::string_view name);
/// x as a constant: no gradient flows back through it. x [T, D] → same.
ValueId detach(ProgramBuilder& builder, ValueId x, std::string_view name);
/// Copies x, for an empty stage.
ValueId copy(ProgramBuilder& builder, ValueId x, std::string_view name);
/// Head and loss: h [T, D], weight [V, D], targets i32 [T] (negative: masked) → f64 [2] {loss sum, z-loss sum}.
ValueId linear_cross_entropy(ProgramBuilder& builder, ValueId h, ValueId weight, ValueId targets,
                             const kernels::CrossEntropyOptions& options, std::string_view name);

/// The entry with the largest logit of each token: h [T, D], weight [V, D] → i32 [T], without gradient.
ValueId linear_argmax(ProgramBuilder& builder, ValueId h, ValueId weight, const kernels::CrossEntropyOptions& options,
                      std::string_view name);
/// The number of places with equal entries among those whose target is not negative: x, y, targets i32 [T] → f64 [1], for a metric.
ValueId count_matches(ProgramBuilder& builder, ValueId x, ValueId y, ValueId targets, std::string_view name);

/// The choices of T tokens, K experts each, in the order of experts (kernels/expert_rows.hpp): the row of each choice, i32 [T, K], and
/// where the rows of each expert begin, i32 [E + 1].
struct ExpertPlaces {
  ValueId places, offsets;
};
/// experts i32 [T, K], each within [0, experts_count).
ExpertPlaces sort_by_expert(ProgramBuilder& builder, ValueId experts, std::int64_t experts_count, std::string_view name);
/// x [T, D], places i32 [T, K] → [T·K, D]: a row for each choice. `weights` f32 [T, K] multiply them.
ValueId gather_rows(ProgramBuilder& builder, ValueId x, ValueId places, std::string_view name, ValueId weights = {});
/// rows [T·K, D], places i32 [T, K] → [T, D]: the sum of each token's rows, times `weights` f32 [T, K] if there are some.
ValueId combine_rows(ProgramBuilder& builder, ValueId rows, ValueId places, std::string_view name, ValueId weights = {});
/// Two forms of groups of rows (kernels/group_offsets.hpp): where each begins, i32 [G + 1], and how many it has, i32 [copies · G] or in any
/// shape.
ValueId group_counts(ProgramBuilder& builder, ValueId offsets, std::string_view name, std::int64_t copies = 1);
ValueId group_offsets(ProgramBuilder& builder, ValueId counts, std::string_view name);

/// Which rows of an exchange go to every member, and where those of every member arrive: i32 [P·g + 1], or ranges i32 [P, 2], each
/// (runtime/program/exchange.hpp).
struct ExchangeTables {
  ValueId send = {}, receive = {};
};
/// An exchange that was posted, to be awaited once.
struct PostedExchange {
  ExchangeId exchange;
  kernels::Dimension rows;
  std::string name;
};
/// Posts send [R, …] to the members of the builder's group; `rows` will be received (ProgramBuilder::bounded_by).
[[nodiscard]] PostedExchange post_rows(ProgramBuilder& builder, ValueId send, const ExchangeTables& tables, const kernels::Dimension& rows,
                                       std::string_view name);
/// Posts send [P·n, …], of which every member gets n rows and receives as many.
[[nodiscard]] PostedExchange post_parts(ProgramBuilder& builder, ValueId send, std::string_view name);
/// The rows that were received [rows, …]. What does not depend on them may be appended between the post and the await. `parts`: exchanges
/// that have received some of these rows, and were awaited as parts.
[[nodiscard]] ValueId await_rows(ProgramBuilder& builder, const PostedExchange& posted, std::span<const PostedExchange> parts = {});
void await_part(ProgramBuilder& builder, const PostedExchange& posted);
/// The tables of one round of an exchange (kernels/exchange_round.hpp): counts i32 [P·E] → ranges i32 [P, 2], groups i32 [P·g + 1], more
/// i32 [1].
struct ExchangeRound {
  ValueId send, receive, groups, more;
};
[[nodiscard]] ExchangeRound exchange_round(ProgramBuilder& builder, ValueId counts, const kernels::ExchangeRoundOptions& options,
                                           std::string_view name);
/// Posts and awaits.
[[nodiscard]] ValueId exchange_rows(ProgramBuilder& builder, ValueId send, const ExchangeTables& tables, const kernels::Dimension& rows,
                                    std::string_view name);
/// The keys that an indexer chooses for each query (kernels/choose_keys.hpp): q [T, H·D] and k [T, D], weights f32 [T, H], segments i32 [T]
/// → key lists i32 [T, keys_per_query], without gradient; `sequence` is the builder's, whatever the options say.
ValueId choose_keys(ProgramBuilder& builder, ValueId q, ValueId k, ValueId weights, ValueId segments,
                    const kernels::ChooseKeysOptions& options, std::string_view name);
/// Attention of each query to the keys of its list: q [T, H·head_dim], k [T, K·head_dim], v [T, K·v_head_dim], keys i32 [T, L] →
/// [T, H·v_head_dim] (v_head_dim 0: head_dim); `sequence` is the builder's, whatever the options say.
ValueId sparse_attention(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId keys,
                         const kernels::SparseAttentionOptions& options, std::string_view name);
/// What the loss of an indexer is computed from (kernels/indexer_loss.hpp): the attention's q [T, H·head_dim] and k [T, K·head_dim], which
/// get no gradient; index_q [T, Hi·Di], index_k [T, Di], index_weights f32 [T, Hi]; segments i32 [T]; key lists i32 [T, L], or none, which
/// means all keys that a query sees.
struct IndexerLossInputs {
  ValueId q, k, index_q, index_k, index_weights, segments, keys;
};
/// f64 [1], a sum over the microbatch's tokens for a loss term; `sequence` is the builder's and `list_length` that of the lists, whatever
/// the options say.
ValueId indexer_loss(ProgramBuilder& builder, const IndexerLossInputs& inputs, const kernels::IndexerLossOptions& options,
                     std::string_view name);
/// The choices of a router that are within the capacity of their expert: the weights f32 [T, K], 0 for what is dropped; i32 [T, K], 1 or 0;
/// and how many are dropped, i32 [1].
struct KeptChoices {
  ValueId weights, kept, dropped;
};
/// weights f32 [T, K], experts i32 [T, K]. T must not be bounded by a runtime count.
KeptChoices apply_capacity(ProgramBuilder& builder, ValueId weights, ValueId experts, const kernels::CapacityOptions& options,
                           std::string_view name);
/// The balance loss of a router: logits [T, E], experts i32 [T, K] → f64 [1], a sum over the microbatch's sequences for a loss term: with
/// a denominator that counts sequences it is K if experts are used evenly. T must not be bounded by a runtime count.
ValueId balance_loss(ProgramBuilder& builder, ValueId logits, ValueId experts, const kernels::BalanceLossOptions& options,
                     std::string_view name);
/// The z-loss of a router: logits [T, E] → f64 [1], a sum over the microbatch's tokens for a loss term.
ValueId router_z_loss(ProgramBuilder& builder, ValueId logits, std::string_view name);
/// The largest score of every head, f64 [H], of q [T, H·head_dim] and k [T, K·head_dim], for an observation; without gradient. Within the
/// builder's rows, as attention.
ValueId score_maxima(ProgramBuilder& builder, ValueId q, ValueId k, ValueId segments, kernels::AttentionOptions options,
                     std::string_view name);
/// {number of elements, number of zeros, Σ x, Σ x²} f64 [4] of x [T, D], for an observation; without gradient.
ValueId moments(ProgramBuilder& builder, ValueId x, std::string_view name);

}  // namespace millrace::runtime
