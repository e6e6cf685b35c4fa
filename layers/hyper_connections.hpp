#pragma once

#include <functional>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

/// Manifold-constrained hyper-connections (mHC, Xie et al., arXiv 2512.24880): the residual stream is k streams of D features, stream after
/// stream, [T, k·D], D = model.width. A branch reads a weighted sum of them and its result is added to all, with weights that depend on the
/// token; between them the streams are mixed by a matrix whose rows and columns add up to 1.
namespace millrace::layers {

/// x [T, D], the embedding, as k equal streams; x itself in a model without hyper-connections.
[[nodiscard]] runtime::ValueId as_streams(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId x);

/// The sum of the streams, which the head reads: [T, D]; x itself in a model without hyper-connections.
[[nodiscard]] runtime::ValueId sum_of_streams(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId x);

/// The streams with a branch: `streams` [T, k·D] → same. `branch` maps what it reads, [T, D] before its norm, to its result. Parameters
/// under `module` (the full name), as MaxText has them, gates pre, post and res: mhc_norm.scale [k·D]; <gate>_alpha [k·D, n], n = k, k and
/// k·k, or k! in the lite form; <gate>_alpha_scale [1]; <gate>_beta [n], that of res [k, k] but in the lite form. `name` is put before the
/// operations' names.
[[nodiscard]] runtime::ValueId hyper_connection(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId streams,
                                                const std::string& module, const std::string& name,
                                                const std::function<runtime::ValueId(runtime::ValueId)>& branch);

}  // namespace millrace::layers
