#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/program/builder.hpp"

/// The operations that layers write with: each appends one operation and returns its result. T = rows · sequence tokens of a microbatch.
/// Shape rule, gradients, cost and kernel of each stand in ops/<name>.cpp; of linear and logits, which are products, in ops/matmul.cpp.
namespace millrace::runtime {

/// table[tokens]: tokens i32 [T], table [V, D] → [T, D].
ValueId embedding(ProgramBuilder& builder, ValueId tokens, ValueId table, std::string_view name);
/// x · weightᵀ: x [T, K], weight [N, K] as checkpoints store it → [T, N] in the compute dtype.
ValueId linear(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name);
/// The same with fp32 results, without gradient: logits for sampling and parity.
ValueId logits(ProgramBuilder& builder, ValueId x, ValueId weight, std::string_view name);
/// x [T, D], weight f32 [D] → [T, D].
ValueId rms_norm(ProgramBuilder& builder, ValueId x, ValueId weight, float epsilon, std::string_view name);
/// x [T, heads·head_dim] → same; inverse_frequencies f32 [head_dim/2].
ValueId rope(ProgramBuilder& builder, ValueId x, ValueId positions, ValueId inverse_frequencies, std::string_view name);
/// q [T, H·head_dim], k and v [T, K·head_dim], segments i32 [T] → [T, H·head_dim]; causal within the builder's rows.
ValueId attention(ProgramBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId segments, std::int64_t head_dim, float scale,
                  std::string_view name);
ValueId swiglu(ProgramBuilder& builder, ValueId gate, ValueId up, std::string_view name);
ValueId add(ProgramBuilder& builder, ValueId a, ValueId b, std::string_view name);
/// A copy: what an empty stage does.
ValueId copy(ProgramBuilder& builder, ValueId x, std::string_view name);
/// Head and loss: h [T, D], weight [V, D], targets i32 [T] (negative: masked) → f64 [2] {loss sum, z-loss sum}.
ValueId linear_cross_entropy(ProgramBuilder& builder, ValueId h, ValueId weight, ValueId targets, float z_loss, std::string_view name);

}  // namespace millrace::runtime
