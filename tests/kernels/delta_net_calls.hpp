#pragma once

#include <vector>

#include "kernels/delta_gates.hpp"
#include "kernels/gated_delta_rule.hpp"
#include "kernels/l2_norm.hpp"
#include "kernels/short_convolution.hpp"
#include "tests/kernels/operand_call.hpp"

/// The kernels of gated delta nets in the table of tests/kernels/operands_test.cpp.
namespace millrace::kernels::testing {

inline void add_gated_delta_rule(std::vector<Call>& calls, DType type) {
  const Shape keys{kTokens, kPairs, kWidth}, values{kTokens, kHeads, kColumns}, numbers{kTokens, kHeads};
  const Operand q{"q", type, keys, true}, k{"k", type, keys}, v{"v", type, values, true}, segments{"segments", DType::i32, {kTokens}};
  const auto number = [&](const char* name) { return Operand{name, DType::f32, numbers}; };
  const GatedDeltaRuleOptions options{.sequence = kSequence, .scale = 0.3F};
  calls.push_back(
      {"gated_delta_rule_forward",
       {q, k, v, number("g"), number("beta"), segments, {"o", type, values}},
       [=](const ExecutionContext& s, const Operands& o, Scratch memory) {
         gated_delta_rule_forward(s, o[0], o[1], o[2], o[3], o[4], o[5], options, o[6], memory);
       },
       [=](const ExecutionContext& s) { return needed_scratch(table::gated_delta_rule_forward_scratch_bytes, s, keys, values, options); },
       true});
  calls.push_back(
      {"gated_delta_rule_input_gradient",
       {{"d_o", type, values},
        q,
        k,
        v,
        number("g"),
        number("beta"),
        segments,
        {"dq", type, keys},
        {"dk", type, keys},
        {"dv", type, values},
        number("dg"),
        number("dbeta")},
       [=](const ExecutionContext& s, const Operands& o, Scratch memory) {
         gated_delta_rule_input_gradient(s, o[0], o[1], o[2], o[3], o[4], o[5], o[6], options, o[7], o[8], o[9], o[10], o[11], memory);
       },
       [=](const ExecutionContext& s) { return needed_scratch(table::gated_delta_rule_gradient_scratch_bytes, s, keys, values, options); },
       true});
}

/// The operations around the gated delta rule.
inline void add_delta_net(std::vector<Call>& calls, DType type) {
  const Shape shape{kTokens, kWidth};
  const Operand x{"x", type, shape, true}, r{"r", DType::f32, {kTokens}}, segments{"segments", DType::i32, {kTokens}};
  const auto like = [&](const char* name) { return Operand{name, type, shape}; };
  calls.push_back({"l2_norm_forward", {x, like("y"), r}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     l2_norm_forward(s, o[0], {.epsilon = 1e-6F}, o[1], o[2]);
                   }});
  calls.push_back({"l2_norm_input_gradient", {like("dy"), x, r, like("dx")}, [](const ExecutionContext& s, const Operands& o, Scratch) {
                     l2_norm_input_gradient(s, o[0], o[1], o[2], o[3]);
                   }});
  const Operand a{"a", type, shape, true};
  const auto gate = [&](const char* name) { return Operand{name, DType::f32, shape}; };
  const auto head = [&](const char* name) { return Operand{name, DType::f32, {kWidth}}; };
  calls.push_back(
      {"delta_gates_forward",
       {a, like("b"), head("a_log"), head("dt_bias"), gate("g"), gate("beta")},
       [](const ExecutionContext& s, const Operands& o, Scratch) { delta_gates_forward(s, o[0], o[1], o[2], o[3], {}, o[4], o[5]); }});
  calls.push_back({"delta_gates_input_gradient",
                   {gate("dg"), gate("dbeta"), a, like("b"), head("a_log"), head("dt_bias"), like("da"), like("db")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) {
                     delta_gates_input_gradient(s, o[0], o[1], o[2], o[3], o[4], o[5], {}, o[6], o[7]);
                   }});
  calls.push_back({"delta_gates_weight_gradient",
                   {gate("dg"),
                    {"a", type, shape, true, {DType::f32, DType::bf16}},
                    head("a_log"),
                    head("dt_bias"),
                    head("d_a_log"),
                    head("d_dt_bias")},
                   [](const ExecutionContext& s, const Operands& o, Scratch) {
                     delta_gates_weight_gradient(s, o[0], o[1], o[2], o[3], {}, o[4], o[5]);
                   }});
  const Shape taps{kWidth, 1, 4};
  const Operand w{"w", type, taps, true, {DType::f32}, {2}}, w_of_gradient{"w", type, taps, true, {DType::f32}};
  const ShortConvolutionOptions options{.sequence = kSequence, .silu = true};
  calls.push_back({"short_convolution_forward", {x, w, segments, like("y")}, [=](const ExecutionContext& s, const Operands& o, Scratch) {
                     short_convolution_forward(s, o[0], o[1], o[2], options, o[3]);
                   }});
  calls.push_back({"short_convolution_input_gradient",
                   {like("dy"), x, w, segments, like("dx")},
                   [=](const ExecutionContext& s, const Operands& o, Scratch) {
                     short_convolution_input_gradient(s, o[0], o[1], o[2], o[3], options, o[4]);
                   }});
  calls.push_back({"short_convolution_weight_gradient",
                   {like("dy"), x, w_of_gradient, segments, {"dw", DType::f32, taps}},
                   [=](const ExecutionContext& s, const Operands& o, Scratch) {
                     short_convolution_weight_gradient(s, o[0], o[1], o[2], o[3], options, o[4]);
                   }});
}

}  // namespace millrace::kernels::testing
