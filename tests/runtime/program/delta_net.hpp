#pragma once

#include "runtime/program/operations.hpp"

namespace millrace::runtime::testing {

/// The mixer of Qwen3-Next and Qwen3.5 in small: one key head of 4, two value heads of 4.
struct DeltaNet {
  kernels::ShortConvolutionOptions convolution = {.silu = true};
  kernels::L2NormOptions norm = {.width = 4, .epsilon = 1e-2F};
  kernels::DeltaGatesOptions gates = {};
  kernels::GatedDeltaRuleOptions rule = {.head_k_dim = 4, .head_v_dim = 4, .scale = 0.8F};

  ValueId operator()(ProgramBuilder& b, ValueId x) const {
    const auto segments = b.batch("segments");
    const auto mixed = linear(b, x, b.parameter("qkv", {16, 8}), "qkv");
    const auto parts =
        split(b, short_convolution(b, mixed, b.parameter("conv", {16, 1, 3}), segments, convolution, "conv"), {4, 4, 8}, "split");
    const auto gates_of = [&](const char* name) { return linear(b, x, b.parameter(name, {2, 8}), name); };
    const auto [g, beta] = delta_gates(b, gates_of("a"), gates_of("b"), b.parameter("A_log", {2}, in_f32),
                                       b.parameter("dt_bias", {2}, in_f32), gates, "gates");
    const auto o = gated_delta_rule(b, l2_norm(b, parts[0], norm, "q_norm"), l2_norm(b, parts[1], norm, "k_norm"), parts[2], g, beta,
                                    segments, rule, "delta");
    const auto z = linear(b, x, b.parameter("z", {8, 8}), "z");
    return glu(b, kernels::Activation::silu, z, rms_norm(b, o, b.parameter("norm", {4}, in_f32), {1e-2F}, "norm"), "gate");
  }
};

}  // namespace millrace::runtime::testing
