#pragma once

#include <string>
#include <string_view>

#include "layers/layer_spec.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/streams.hpp"
#include "runtime/program/builder.hpp"

/// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2). Module k = 1, 2, … predicts the token k + 1 places ahead. With H₀
/// the residual stream behind the last decoder layer, before the final norm:
///
///   H_k = layer( [norm(embedding of the token k places ahead) ‖ norm(H_{k−1})] · projection ),      the loss of H_k is that of the head,
///
/// for whose targets the tokens are k + 1 places ahead. Places whose document or row ends before that have no target. A module is a decoder
/// layer of the kind of the last one, with positions and documents as they are. In the chain of stages modules stand between the last
/// layer and the head: each hands on what it received and its own H_k, and the head computes all losses with its one norm and table. The
/// embedding of module k is use 1 + k of the embedding's table.
namespace millrace::layers {

/// What modules take from the family of the model: the parameters under the names of its checkpoints. Modules count from 1. D: model.width.
class MtpFamily {
 public:
  virtual ~MtpFamily() = default;
  /// The embedding of the tokens `module` places ahead → [T, D], as the model embeds its own; the table is used with mtp_table_use().
  [[nodiscard]] virtual runtime::ValueId mtp_embedding(runtime::ProgramBuilder& builder, const ModelSpec& model, int module) const = 0;
  /// The input of the module's layer from its embedding and from H_{module − 1}, [T, D] each → [T, D].
  [[nodiscard]] virtual runtime::ValueId mtp_input(runtime::ProgramBuilder& builder, const ModelSpec& model, int module,
                                                   runtime::ValueId embedding, runtime::ValueId hidden) const = 0;
  /// The module's decoder layer: [T, D] → H_module.
  [[nodiscard]] virtual runtime::ValueId mtp_layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int module,
                                                   runtime::ValueId x) const = 0;
  /// Final norm and output head of H_module, of module 0 for the model itself; only the model's own loss has a z-loss.
  [[nodiscard]] virtual HeadOperands mtp_head(runtime::ProgramBuilder& builder, const ModelSpec& model, int module,
                                              runtime::ValueId x) const = 0;
};

/// The use of the embedding's table by module `module`: 0 is the embedding's, 1 that of a tied head.
[[nodiscard]] constexpr int mtp_table_use(int module) { return 1 + module; }

/// The scope of the module's operations: "mtp.1". The head's operations for it have "mtp_head.1".
[[nodiscard]] std::string mtp_scope(int module);

/// The label of H_module, of every module.
inline constexpr std::string_view mtp_output_label = "mtp_output";

/// The stream of H_module: "mtp_1".
[[nodiscard]] std::string mtp_stream(int module);

/// A field of the batch, i32 [T], as module `module` sees it: the entry `module` places ahead in the same document, or `filling`.
[[nodiscard]] runtime::ValueId mtp_shifted(runtime::ProgramBuilder& builder, const ModelSpec& model, std::string_view field, int module,
                                           std::int32_t filling);

/// Appends the module: the streams before it → those before the next module or the head.
[[nodiscard]] Streams mtp_module(runtime::ProgramBuilder& builder, const MtpFamily& family, const ModelSpec& model, int module,
                                 const Streams& in);

/// Appends the head of a model with modules, from the streams before it: the loss `lm_loss` of the model itself, the losses of all modules
/// as terms "mtp_loss", and for evaluations "mtp_acceptance": how many percent of what module losses.mtp_eval_module (from 1; 0: none)
/// predicts is also what the model predicts when it gets there, which is how many of such tokens speculative decoding would accept.
void mtp_losses(runtime::ProgramBuilder& builder, const MtpFamily& family, const ModelSpec& model, const Streams& in,
                runtime::LossTerm lm_loss);

/// Adds the layers of `modules` modules to a resolved model. Throws Error(model) naming the family if its layers exchange more than the
/// residual stream.
void add_mtp(ModelSpec& model, std::int64_t modules, std::string_view family);

/// The model without its modules.
void remove_mtp(ModelSpec& model);

}  // namespace millrace::layers
