#pragma once

#include <optional>
#include <string>

#include "layers/layer_spec.hpp"
#include "layers/parameter.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The n-gram memory of a layer (Engram; MaxText's layers/engram.py), for k residual streams of D features. With e [T, tables·head_dim] the
/// rows that the n-grams ending at a token look up, and x the streams,
///
///   keys = norm(e·W_key + b_key),   q = norm(x),   v = e·W_value + b_value,
///   G_i = gate(⟨q_i, keys_i⟩)·v,    y = G + silu(convolution(norm(G))),
///
/// where each norm has weights of its own for every stream (kernels/context_gate.hpp says what the gate is). The convolution of each
/// feature looks back in steps of the longest n-gram. Hashes and convolution cross the borders of documents, and not of rows, as in
/// MaxText.
///
/// x [T, k·D] → y [T, k·D]. Parameters under `module` (the full name): multi_head_embedding.embedding.embedding [rows, head_dim];
/// key_proj.kernel [tables·head_dim, k, D] and .bias [k, D]; value_proj.kernel [tables·head_dim, D] and .bias [D]; q_norm.scale,
/// k_norm.scale and short_conv.norm.scale [k, D]; short_conv.conv.kernel [taps, 1, k·D]. Reads the batch's field "compressed". `name` is
/// put before the operations' names.
[[nodiscard]] runtime::ValueId engram(runtime::ProgramBuilder& builder, const ModelSpec& model, const EngramSpec& spec, runtime::ValueId x,
                                      const std::string& module, const std::string& name);

/// The initial values of a parameter of engram(), by its full name and shape in the program; nothing for other names. The convolution
/// begins at zero, so that y = G.
[[nodiscard]] std::optional<Initial> initial_engram_parameter(const std::string& name, const kernels::Shape& shape);

}  // namespace millrace::layers
