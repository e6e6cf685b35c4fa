#include "layers/models/mtp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "kernels/base/check.hpp"
#include "layers/losses/output_loss.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

namespace {

/// The percentage of the module's valid targets for which the module and the model predict the same token.
void acceptance(runtime::ProgramBuilder& builder, const ModelSpec& model, int module, const HeadOperands& main, const HeadOperands& ahead,
                runtime::ValueId targets) {
  const runtime::ValueId own = runtime::linear_argmax(builder, main.h, head_weight(builder, main.table), main.form, "model_predictions");
  const runtime::ValueId later =
      runtime::shift_left(builder, own, builder.batch("segments"),
                          {.distance = module, .filling = -1, .last_border_only = model.shifts_over_documents}, "model_predictions_ahead");
  const runtime::ValueId predicted = runtime::linear_argmax(builder, ahead.h, head_weight(builder, ahead.table), ahead.form, "predictions");
  builder.loss_term({.name = "mtp_acceptance",
                     .weight = 100,
                     .denominator = runtime::Denominator::mtp_eval_targets,
                     .auxiliary = true,
                     .evaluation_only = true},
                    runtime::count_matches(builder, predicted, later, targets, "accepted"));
}

}  // namespace

std::string mtp_scope(int module) { return fmt::format("mtp.{}", module); }

std::string mtp_stream(int module) { return fmt::format("mtp_{}", module); }

runtime::ValueId mtp_shifted(runtime::ProgramBuilder& builder, const ModelSpec& model, std::string_view field, int module,
                             std::int32_t filling) {
  return runtime::shift_left(builder, builder.batch(field), builder.batch("segments"),
                             {.distance = module, .filling = filling, .last_border_only = model.shifts_over_documents},
                             fmt::format("{}_ahead", field));
}

Streams mtp_module(runtime::ProgramBuilder& builder, const MtpFamily& family, const ModelSpec& model, int module, const Streams& in) {
  const runtime::ValueId before = in.at(module == 1 ? std::string(runtime::hidden_port) : mtp_stream(module - 1));
  const runtime::ValueId embedding = family.mtp_embedding(builder, model, module);
  const runtime::ValueId x = family.mtp_input(builder, model, module, embedding, before);
  Streams out = in;
  const runtime::ValueId hidden = family.mtp_layer(builder, model, module, x);
  builder.label(hidden, mtp_output_label);
  out.set(mtp_stream(module), hidden);
  return out;
}

void mtp_losses(runtime::ProgramBuilder& builder, const MtpFamily& family, const ModelSpec& model, const Streams& in,
                runtime::LossTerm lm_loss) {
  const HeadOperands main = family.mtp_head(builder, model, 0, in.at(runtime::hidden_port));
  builder.loss_term(std::move(lm_loss), output_loss(builder, model.losses.output, main, builder.batch("targets")));
  for (int module = 1; module <= model.modules; ++module) {
    builder.enter(-1, fmt::format("mtp_head.{}", module));
    const runtime::ValueId targets = mtp_shifted(builder, model, "targets", module, -1);
    const HeadOperands ahead = family.mtp_head(builder, model, module, in.at(mtp_stream(module)));
    builder.loss_term(
        {.name = "mtp_loss", .weight = model.losses.mtp_loss, .denominator = runtime::Denominator::mtp_targets, .auxiliary = true},
        output_loss(builder, model.losses.output, ahead, targets));
    if (module == model.losses.mtp_eval_module) acceptance(builder, model, module, main, ahead, targets);
  }
  builder.enter(-1, "");
}

void add_mtp(ModelSpec& model, std::int64_t modules, std::string_view family) {
  if (modules == 0) return;
  const auto shares_keys = [](const LayerSpec& layer) {
    const auto* attention = std::get_if<AttentionSpec>(&layer.mixer);
    return attention != nullptr && attention->keys_of.has_value();
  };
  MILLRACE_CHECK(!model.per_layer_inputs && std::ranges::none_of(model.layers, shares_keys), ExitCode::model, "layers.mtp",
                 "{}: model.mtp_layers = {} with layers that have inputs of their own or share keys, expected 0: a module receives the "
                 "residual stream alone",
                 family, modules);
  const LayerSpec last = model.layers.back();
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(modules), last);
  model.modules = static_cast<int>(modules);
}

void remove_mtp(ModelSpec& model) {
  model.layers.resize(static_cast<std::size_t>(model.decoder_layers()));
  model.modules = 0;
}

}  // namespace millrace::layers
