#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/adam_pax.hpp"
#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
#include "kernels/attention_temperature.hpp"
#include "kernels/bias.hpp"
#include "kernels/capacity.hpp"
#include "kernels/columns.hpp"
#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/head_parts.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/learned_scale.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/sgd.hpp"
#include "kernels/sinusoid.hpp"
#include "kernels/softmax.hpp"
#include "kernels/square_sum.hpp"
#include "tests/kernels/delta_net_calls.hpp"
#include "tests/kernels/fixture.hpp"
#include "tests/kernels/operand_call.hpp"

/// How every kernel checks its operands, all kernels in one table: the error names the wrong operand, and no memory outside the
/// operands is accessed.
namespace millrace::kernels::testing {
namespace {

void add_norms(std::vector<Call>& calls, DType type) {
  const Operand x{"x", type, {kTokens, kWidth}, true}, w{"w", DType::f32, {kWidth}}, r{"r", DType::f32, {kTokens}};
  const auto like_x = [&](const char* name) { return Operand{name, type, x.shape}; };
  const auto sums = [&](const char* name) { return Operand{name, DType::f32, {kWidth}}; };
  const Operand m{"m", DType::f32, {kTokens}};
  calls.push_back({"layer_norm_forward", {x, w, sums("b"), like_x("y"), m, r}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     layer_norm_forward(s, o[0], o[1], o[2], {1e-5F}, o[3], o[4], o[5]);
                   }});
  calls.push_back(
      {"layer_norm_input_gradient", {like_x("dy"), x, w, m, r, like_x("dx")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
         layer_norm_input_gradient(s, o[0], o[1], o[2], o[3], o[4], {1e-5F}, o[5]);
       }});
  calls.push_back(
      {"layer_norm_weight_gradient",
       {like_x("dy"), x, m, r, sums("dw"), sums("db")},
       [](const ExecutionContext& s, const Operands& o, Scratch) { layer_norm_weight_gradient(s, o[0], o[1], o[2], o[3], o[4], o[5]); }});
  calls.push_back({"rms_norm_forward", {x, w, like_x("y"), r}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     rms_norm_forward(s, o[0], o[1], {1e-5F}, o[2], o[3]);
                   }});
  calls.push_back({"rms_norm_input_gradient",
                   {like_x("dy"), x, w, r, like_x("dx"), like_x("addend")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) {
                     rms_norm_input_gradient(s, o[0], o[1], o[2], o[3], {1e-5F}, o[4], &o[5]);
                   }});
  calls.push_back({"rms_norm_weight_gradient", {like_x("dy"), x, r, sums("dw")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     rms_norm_weight_gradient(s, o[0], o[1], o[2], o[3]);
                   }});
}

void add_elements(std::vector<Call>& calls, DType type) {
  const Shape shape{kTokens, kWidth};
  const auto like = [&](const char* name) { return Operand{name, type, shape}; };
  const auto leader = [&](const char* name) { return Operand{name, type, shape, true}; };
  calls.push_back({"activation_forward", {leader("x"), like("y")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     activation_forward(s, Activation::gelu, o[0], o[1]);
                   }});
  calls.push_back(
      {"activation_input_gradient", {like("dy"), leader("x"), like("dx")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
         activation_input_gradient(s, Activation::silu, o[0], o[1], o[2]);
       }});
  calls.push_back({"glu_forward", {leader("gate"), like("up"), like("y")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     glu_forward(s, Activation::relu, o[0], o[1], o[2]);
                   }});
  calls.push_back({"glu_input_gradient",
                   {like("dy"), leader("gate"), like("up"), like("d_gate"), like("d_up")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) {
                     glu_input_gradient(s, Activation::silu, o[0], o[1], o[2], o[3], o[4]);
                   }});
  calls.push_back(
      {"softmax", {leader("x"), like("y")}, [](const ExecutionContext& s, const Operands& o, Scratch) { softmax(s, o[0], o[1]); }});
  calls.push_back({"softmax_input_gradient",
                   {leader("dy"), like("y"), like("dx")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) { softmax_input_gradient(s, o[0], o[1], o[2]); }});
  const Shape choices{kTokens, 2};
  if (type == DType::f32) {
    calls.push_back({"learned_scale",
                     {{"x", DType::f32, {4, 2}, true}, {"scales", DType::f32, {1}}, {"y", DType::f32, {4, 2}}},
                     [](const ExecutionContext& s, const Operands& o, Scratch) { learned_scale(s, o[0], o[1], nullptr, o[2]); }});
    calls.push_back(
        {"learned_scale_weight_gradient",
         {{"dy", DType::f32, {4, 2}}, {"x", DType::f32, {4, 2}, true}, {"scales", DType::f32, {1}}},
         [](const ExecutionContext& s, const Operands& o, Scratch) { learned_scale_weight_gradient(s, o[0], o[1], nullptr, o[2]); }});
    calls.push_back({"apply_capacity",
                     {{"weights", DType::f32, choices},
                      {"experts", DType::i32, choices, true},
                      {"kept_weights", DType::f32, choices},
                      {"kept", DType::i32, choices},
                      {"dropped", DType::i32, {1}}},
                     [](const ExecutionContext& s, const Operands& o, Scratch) {
                       apply_capacity(s, o[0], o[1], {.experts = 3, .capacity = 1}, o[2], o[3], o[4]);
                     }});
    calls.push_back({"apply_capacity_input_gradient",
                     {{"d_kept_weights", DType::f32, choices}, {"kept", DType::i32, choices, true}, {"d_weights", DType::f32, choices}},
                     [](const ExecutionContext& s, const Operands& o, Scratch) { apply_capacity_input_gradient(s, o[0], o[1], o[2]); }});
  }
  calls.push_back({"add", {leader("a"), like("b"), like("y")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     add(s, o[0], o[1], o[2]);
                   }});
  calls.push_back(
      {"scale", {leader("x"), like("y")}, [](const ExecutionContext& s, const Operands& o, Scratch) { scale(s, o[0], {0.5F}, o[1]); }});
  calls.push_back({"accumulate",
                   {{"x", type, shape, true, {DType::f32, DType::bf16}}, {"accumulator", DType::f32, shape}},
                   [](const ExecutionContext& s, const Operands& o, Scratch) { accumulate(s, o[0], o[1]); }});
  calls.push_back({"convert",
                   {{"x", type, shape, true, {DType::f32, DType::bf16}}, {"y", DType::f32, shape, false, {DType::bf16}}},
                   [](const ExecutionContext& s, const Operands& o, Scratch) { convert(s, o[0], o[1]); }});
  calls.push_back(
      {"dropout", {leader("x"), {"samples", DType::i32, {kTokens}}, like("y")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
         dropout(s, o[0], o[1], {0.5F, 3}, o[2]);
       }});
  calls.push_back({"bias_forward",
                   {leader("x"), {"b", DType::f32, {kWidth}}, like("y")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) { bias_forward(s, o[0], o[1], o[2]); }});
  calls.push_back({"bias_weight_gradient",
                   {{"dy", type, shape, true, {DType::f32, DType::bf16}, {0}}, {"b", DType::f32, {kWidth}}},
                   [](const ExecutionContext& s, const Operands& o, Scratch) { bias_weight_gradient(s, o[0], o[1]); }});
  calls.push_back({"add_sinusoid",
                   {leader("x"), {"positions", DType::i32, {kTokens}}, {"inverse_timescales", DType::f32, {kWidth / 2}}, like("y")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) { add_sinusoid(s, o[0], o[1], o[2], o[3]); }});
  const Shape heads{kTokens, kHeads, kWidth};
  for (const RopeOptions options : {RopeOptions{}, {.interleaved = true}, {.interleaved = true, .unrotated = 6, .rotate_last = true}})
    calls.push_back({"rope",
                     {{"x", type, heads, true},
                      {"positions", DType::i32, {kTokens}},
                      {"inverse_frequencies", DType::f32, {(kWidth - options.unrotated) / 2}},
                      {"y", type, heads}},
                     [=](const ExecutionContext& s, const Operands& o, Scratch) { rope(s, o[0], o[1], o[2], options, o[3]); }});
  calls.push_back({"attention_temperature",
                   {leader("x"), {"positions", DType::i32, {kTokens}}, like("y")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) {
                     attention_temperature(s, o[0], o[1], {0.1F, 3}, o[2]);
                   }});
  calls.push_back({"square_sums",
                   {{"x", DType::f32, shape, true, {}, {0, 1, 2}}, {"sums", DType::f64, {1}}},
                   [](const ExecutionContext& s, const Operands& o, Scratch) {
                     square_sums(s, {&o[0], 1}, o[1]);
                   }});
  const auto updated = [&](const char* name, bool leads = false) { return Operand{name, DType::f32, shape, leads}; };
  const Operand copy{.name = "copy", .dtype = DType::bf16, .shape = shape, .may_lack = true};
  const auto tensors = [](const Operands& o) {  // parameter, gradient, copy, states
    OptimizerTensors all{o[0], o[1], o[2], {}};
    for (std::size_t i = 3; i < o.size(); ++i) all.states.at(i - 3) = o[i];
    return all;
  };
  calls.push_back({"adamw",
                   {updated("parameter", true), updated("gradient"), copy,
                    Operand{.name = "m", .dtype = DType::f32, .shape = shape, .also = {DType::bf16}}, updated("v")},
                   [=](const ExecutionContext& s, const Operands& o, Scratch) {
                     const auto all = tensors(o);
                     adamw(s, {.learning_rate = 0.1}, {&all, 1});
                   }});
  calls.push_back({"adam_pax",
                   {updated("parameter", true), updated("gradient"), copy, updated("m"), updated("v")},
                   [=](const ExecutionContext& s, const Operands& o, Scratch) {
                     const auto all = tensors(o);
                     adam_pax(s, {.learning_rate = 0.1}, {&all, 1});
                   }});
  calls.push_back({"sgd",
                   {updated("parameter", true), updated("gradient"), copy, updated("momentum")},
                   [=](const ExecutionContext& s, const Operands& o, Scratch) {
                     const auto all = tensors(o);
                     sgd(s, {.learning_rate = 0.1, .momentum = 0.5}, {&all, 1});
                   }});
  calls.push_back(
      {"split_columns",
       {{"the whole", type, {kTokens, kWidth}, true}, {"a part", type, {kTokens, 21}, true}, {"a part", type, {kTokens, 19}, true}},
       [](const ExecutionContext& s, const Operands& o, Scratch) { split_columns(s, o[0], std::span(o).subspan(1)); }});
  calls.push_back(
      {"join_columns",
       {{"the whole", type, {kTokens, kWidth}, true}, {"a part", type, {kTokens, 21}, true}, {"a part", type, {kTokens, 19}, true}},
       [](const ExecutionContext& s, const Operands& o, Scratch) { join_columns(s, std::span(o).subspan(1), o[0]); }});
  // Four heads: of 3 and 2 features of their own, and 5 that they share.
  const std::vector<Operand> head_parts = {{"the whole", type, {kTokens, kWidth}, true},
                                           {"a part", type, {kTokens, 12}, true},
                                           {"a part", type, {kTokens, 8}, true},
                                           {"a part", type, {kTokens, 5}, true}};
  calls.push_back({"split_heads", head_parts, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     split_heads(s, o[0], {kHeads, 1}, std::span(o).subspan(1));
                   }});
  calls.push_back({"join_heads", head_parts, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     join_heads(s, std::span(o).subspan(1), {kHeads, 1}, o[0]);
                   }});
  const std::vector<DType> both = {DType::f32, DType::bf16};
  calls.push_back(
      {"embedding_forward",
       {{"tokens", DType::i32, {kTokens}, true}, {"table", type, {kVocabulary, kWidth}, true, both, {0}}, {"y", type, shape, false, both}},
       [](const ExecutionContext& s, const Operands& o, Scratch) { embedding_forward(s, o[0], o[1], o[2]); }});
  calls.push_back({"embedding_weight_gradient",
                   {{"tokens", DType::i32, {kTokens}, true},
                    {"dy", type, shape, false, both},
                    {"gradient", DType::f32, {kVocabulary, kWidth}, true, {}, {0}}},
                   [](const ExecutionContext& s, const Operands& o, Scratch) { embedding_weight_gradient(s, o[0], o[1], o[2]); }});
}

void add_products(std::vector<Call>& calls, DType type) {
  const auto product = [&](MatmulOptions options) {
    const Operand a{"a", type, options.transpose_a ? Shape{kWidth, kTokens} : Shape{kTokens, kWidth}, true};
    const Operand b{"b", type, options.transpose_b ? Shape{kColumns, kWidth} : Shape{kWidth, kColumns}, true};
    const Shape result{kTokens, kColumns};
    Call call{"matmul", {a, b}, {}};
    if (options.accumulate)
      call.operands.push_back({"c (accumulated into)", DType::f32, result});
    else
      call.operands.push_back({"c", type, result, false, {DType::f32}});
    if (options.bias)
      call.operands.push_back({"bias", DType::f32, {kColumns}});
    else if (options.addend) {
      call.operands.back().also.clear();
      call.operands.back().leads = true;  // its dtype is the addend's
      call.operands.push_back({"addend", type, result});
    }
    const DType c = call.operands[2].dtype;
    call.run = [=](const ExecutionContext& s, const Operands& o, Scratch scratch) {
      matmul(s, o[0], o[1], o[2], options, scratch, options.addend ? &o[3] : nullptr);
    };
    call.scratch = [=](const ExecutionContext& s) { return matmul_scratch_bytes(a.shape, b.shape, type, c, options, s.processor()); };
    calls.push_back(call);
  };
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true}) {
      product({.transpose_a = transpose_a, .transpose_b = transpose_b});
      product({.transpose_a = transpose_a, .transpose_b = transpose_b, .accumulate = true});
    }
  product({.transpose_b = true, .addend = true});
  product({.transpose_b = true, .addend = true, .bias = true});
}

void add_attention(std::vector<Call>& calls, DType type, std::int64_t v_head_dim) {
  const Shape many{kTokens, kHeads, kWidth}, few{kTokens, kPairs, kWidth}, results{kTokens, kHeads, v_head_dim},
      values{kTokens, kPairs, v_head_dim};
  const Operand q{"q", type, many, true}, k{"k", type, few, true}, segments{"segments", DType::i32, {kTokens}},
      sums{"log_sum_exp", DType::f32, {kTokens, kHeads}};
  const auto like = [&](const char* name, const Shape& shape) { return Operand{name, type, shape}; };
  const AttentionOptions options{.sequence = kSequence, .v_head_dim = v_head_dim, .scale = 0.3F};
  const Need scratch = [=](const ExecutionContext& s) { return attention_scratch_bytes(many, few, type, options, s.processor()); };
  calls.push_back({"attention_forward",
                   {q, k, like("v", values), segments, like("o", results), sums, {"sinks", DType::f32, {kHeads}}},
                   [=](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     attention_forward(s, o[0], o[1], o[2], o[3], options, o[4], o[5], memory, &o[6]);
                   },
                   scratch,
                   true});
  calls.push_back({"attention_input_gradient",
                   {like("d_o", results), q, k, like("v", values), like("o", results), sums, segments, like("dq", many), like("dk", few),
                    like("dv", values)},
                   [=](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     attention_input_gradient(s, o[0], o[1], o[2], o[3], o[4], o[5], o[6], options, o[7], o[8], o[9], memory);
                   },
                   scratch,
                   true});
  AttentionOptions picked = options;
  picked.block = 2;
  picked.blocks = 1;
  const Operand choice{"choice", DType::i32, {kTokens, kHeads, choice_words(kSequence, picked.block)}};
  calls.push_back({"attention_forward",
                   {q, k, like("v", values), segments, like("o", results), sums, choice},
                   [=](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     attention_forward(s, o[0], o[1], o[2], o[3], picked, o[4], o[5], memory, nullptr, &o[6]);
                   },
                   scratch,
                   true});
  calls.push_back({"attention_input_gradient",
                   {like("d_o", results), q, k, like("v", values), like("o", results), sums, segments, like("dq", many), like("dk", few),
                    like("dv", values), choice},
                   [=](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     attention_input_gradient(s, o[0], o[1], o[2], o[3], o[4], o[5], o[6], picked, o[7], o[8], o[9], memory, &o[10]);
                   },
                   scratch,
                   true});
  const ChooseBlocksOptions chosen{.sequence = kSequence, .block = 2, .blocks = 2};
  calls.push_back(
      {"choose_blocks",
       {q, k, choice},
       [=](const ExecutionContext& s, const Operands& o, Scratch memory) { choose_blocks(s, o[0], o[1], chosen, o[2], memory); },
       [=](const ExecutionContext& s) { return choose_blocks_scratch_bytes(few, chosen, s.processor()); },
       true});
  calls.push_back(
      {"attention_sink_gradient",
       {like("d_o", results), {"o", type, results, true}, sums, {"sinks", DType::f32, {kHeads}}, {"d_sinks", DType::f32, {kHeads}}},
       [](const ExecutionContext& s, const Operands& o, Scratch) { attention_sink_gradient(s, o[0], o[1], o[2], o[3], o[4]); }});
}

void add_head(std::vector<Call>& calls, DType type) {
  const Shape rows{kTokens, kWidth}, table{kVocabulary, kWidth};
  const Operand any_rows{"w", type, table, true, {}, {0}};  // where no other operand has as many
  const Operand h{"h", type, rows, true}, w{"w", type, table, true}, targets{"targets", DType::i32, {kTokens}},
      sums{"log_sum_exp", DType::f32, {kTokens}}, g{"g", DType::f32, {1}}, loss{"loss", DType::f64, {2}}, dh{"dh", type, rows},
      dw{"dw", DType::f32, table};
  const Need scratch = [=](const ExecutionContext& s) { return linear_cross_entropy_scratch_bytes(rows, table, type, {}, s.processor()); };
  calls.push_back({"linear_cross_entropy_forward",
                   {h, any_rows, targets, loss, sums},
                   [](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     linear_cross_entropy_forward(s, o[0], o[1], o[2], {}, o[3], o[4], memory);
                   },
                   scratch,
                   true});
  calls.push_back({"linear_cross_entropy_input_gradient",
                   {h, any_rows, targets, g, dh, loss, sums},
                   [](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     linear_cross_entropy_input_gradient(s, o[0], o[1], o[2], o[3], {}, o[4], o[5], o[6], memory);
                   },
                   scratch,
                   true});
  calls.push_back({"linear_cross_entropy_gradients",
                   {h, w, targets, g, dh, loss, sums, dw},
                   [](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     linear_cross_entropy_gradients(s, o[0], o[1], o[2], o[3], {}, o[4], o[5], o[6], o[7], memory);
                   },
                   scratch,
                   true});
  calls.push_back({"linear_cross_entropy_weight_gradient",
                   {h, w, targets, sums, g, dw},
                   [](const ExecutionContext& s, const Operands& o, Scratch memory) {
                     linear_cross_entropy_weight_gradient(s, o[0], o[1], o[2], o[3], o[4], {}, o[5], memory);
                   },
                   scratch,
                   true});
  calls.push_back({"linear_logits",
                   {h, w, {"logits", DType::f32, {kTokens, kVocabulary}}},
                   [](const ExecutionContext& s, const Operands& o, Scratch memory) { linear_logits(s, o[0], o[1], {}, o[2], memory); },
                   scratch,
                   true});
}

std::vector<Call> calls_of(DType type) {
  std::vector<Call> calls;
  add_norms(calls, type);
  add_elements(calls, type);
  add_products(calls, type);
  add_gated_delta_rule(calls, type);
  add_delta_net(calls, type);
  for (const std::int64_t v_head_dim : {kWidth, kColumns, 2 * kWidth}) add_attention(calls, type, v_head_dim);
  add_head(calls, type);
  return calls;
}

/// Message of the error that a call throws; "" if it throws nothing.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
    wait();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Operands with memory of their own, of which the test then changes one.
class Table {
 public:
  explicit Table(const Call& call) {
    for (const Operand& operand : call.operands) {
      data_.push_back(std::make_unique<Data>(operand.dtype, operand.shape));
      tensors_.push_back(**data_.back());
    }
  }
  [[nodiscard]] const Operands& all() const { return tensors_; }
  [[nodiscard]] Operands with(std::size_t i, const std::function<void(Tensor&)>& change) const {
    Operands changed = tensors_;
    change(changed[i]);
    return changed;
  }

 private:
  std::vector<std::unique_ptr<Data>> data_;
  Operands tensors_;
};

TEST(Operands, AreRefusedByNameWhereTheyDoNotFit) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  for (const DType type : {DType::f32, DType::bf16})
    for (const Call& call : calls_of(type)) {
      SCOPED_TRACE(call.component + " of " + std::string(to_string(type)));
      const Table table(call);
      const Buffer scratch = scratch_of(context, call.scratch(context));
      ASSERT_EQ(refusal([&] { call.run(context, table.all(), scratch.bytes()); }), "");
      const std::string component = "[kernels." + call.component + "] ";
      const auto expect_refused = [&](std::size_t i, bool names_it, const std::string& what, const std::function<void(Tensor&)>& change) {
        const std::string found = refusal([&] { call.run(context, table.with(i, change), scratch.bytes()); });
        const std::string expected = names_it ? component + call.operands[i].name + " " : component;
        EXPECT_TRUE(found.starts_with(expected)) << call.operands[i].name << " with " << what << ": \"" << found << "\"";
      };
      for (std::size_t i = 0; i < call.operands.size(); ++i) {
        const auto& [name, dtype, shape, leads, also, free, may_lack] = call.operands[i];
        const auto is_free = [&](std::size_t axis) { return std::find(free.begin(), free.end(), axis) != free.end(); };
        for (std::size_t axis = 0; axis < shape.rank(); ++axis)
          if (!is_free(axis))
            expect_refused(i, !leads, "another axis " + std::to_string(axis),
                           [&](Tensor& tensor) { tensor.shape.dimension(axis).capacity += 1; });
        if (!is_free(shape.rank())) expect_refused(i, !leads, "one axis more", [](Tensor& tensor) { tensor.shape.push_back(1); });
        if (!may_lack) expect_refused(i, true, "no memory", [](Tensor& tensor) { tensor.data = nullptr; });
        for (const DType other : {DType::f32, DType::bf16, DType::i32, DType::f64}) {
          if (other == dtype || std::find(also.begin(), also.end(), other) != also.end()) continue;
          const bool may_lead = leads && (other == DType::f32 || other == DType::bf16);
          expect_refused(i, !may_lead, std::string(to_string(other)), [&](Tensor& tensor) { tensor.dtype = other; });
        }
      }
      if (call.checks_scratch) {
        const std::string found = refusal([&] { call.run(context, table.all(), scratch.bytes().first(scratch.size() - 1)); });
        EXPECT_TRUE(found.starts_with(component + "scratch has ")) << found;
      }
    }
}

/// Zeroed memory between pages without access; it ends at the one behind, or begins at the one before.
class Fenced {
 public:
  Fenced(std::size_t bytes, std::size_t alignment, bool at_begin) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    inner_ = (bytes + page_ - 1) / page_ * page_;
    memory_ = static_cast<std::byte*>(mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + page_, inner_, PROT_READ | PROT_WRITE);
    data_ = memory_ + page_ + (at_begin ? 0 : (inner_ - bytes) / alignment * alignment);
  }
  ~Fenced() { munmap(memory_, inner_ + 2 * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::size_t page_, inner_;
  std::byte *memory_, *data_;
};

// A read or write beside an operand ends the test.
TEST(Operands, NothingIsTouchedBesideThem) {
  MILLRACE_CPU_ONLY();
  for (const DType type : {DType::f32, DType::bf16})
    for (const Call& call : calls_of(type)) {
      SCOPED_TRACE(call.component);
      for (const Implementation implementation : {Implementation::fast, Implementation::reference})
        for (const int threads : {1, 3})
          for (const bool at_begin : {false, true}) {
            ThreadTeam team(threads);
            const ExecutionContext context(team, implementation);
            std::vector<std::unique_ptr<Fenced>> memory;
            Operands operands;
            for (const Operand& operand : call.operands) {
              const auto bytes = static_cast<std::size_t>(operand.shape.elements()) * size_of(operand.dtype);
              memory.push_back(std::make_unique<Fenced>(bytes, size_of(operand.dtype), at_begin));
              operands.push_back(make_tensor(memory.back()->data(), operand.dtype, operand.shape));
            }
            const std::size_t bytes = call.scratch(context);
            const Fenced scratch(bytes, kAlignment, at_begin);
            EXPECT_EQ(refusal([&] { call.run(context, operands, {scratch.data(), bytes}); }), "");
          }
    }
}

TEST(Operands, TheScratchOfPlainAttentionSuffices) {
  MILLRACE_CPU_ONLY();
  for (const std::int64_t v_head_dim : {kWidth, kColumns, 2 * kWidth}) {
    const AttentionOptions options{.sequence = kSequence, .v_head_dim = v_head_dim, .scale = 0.3F};
    const Data q(DType::f32, {kTokens, kHeads, kWidth}, 1), k(DType::f32, {kTokens, kPairs, kWidth}, 2),
        v(DType::f32, {kTokens, kPairs, v_head_dim}, 2), segments(DType::i32, {kTokens}), o(DType::f32, {kTokens, kHeads, v_head_dim}, 1),
        sums(DType::f32, {kTokens, kHeads}), dq(q), dk(k), dv(v);
    ThreadTeam team(1);
    const ExecutionContext context(team, Implementation::reference);
    const std::size_t bytes = needed_scratch(table::attention_scratch_bytes, context, (*q).shape, (*k).shape, DType::f32, options);
    const Fenced scratch(bytes, alignof(double), false);
    attention_forward(context, *q, *k, *v, *segments, options, *o, *sums, {scratch.data(), bytes});
    attention_input_gradient(context, *o, *q, *k, *v, *o, *sums, *segments, options, *dq, *dk, *dv, {scratch.data(), bytes});
    EXPECT_TRUE(std::isfinite(dq.get(0)));
  }
}

TEST(Operands, ABiasIsAnAddend) {
  ThreadTeam team(1);
  const ExecutionContext context = testing::fast(team);
  const testing::Data a(DType::f32, {3, 4}, 1), b(DType::f32, {4, 5}, 2);
  testing::Data c(DType::f32, {3, 5});
  const Buffer scratch =
      testing::scratch_of(context, matmul_scratch_bytes({3, 4}, {4, 5}, DType::f32, DType::f32, {}, context.processor()));
  EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *c, {.bias = true}, scratch.bytes()); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *c, {.addend = true}, scratch.bytes()); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *c, {}, scratch.bytes(), &*c); }), static_cast<int>(ExitCode::internal));
  EXPECT_EQ(testing::thrown([&] { matmul(context, *a, *b, *c, {}, scratch.bytes()); }), -1);
}

}  // namespace
}  // namespace millrace::kernels::testing
