#include "layers/losses/cross_entropy.hpp"

namespace millrace::layers {
namespace {

runtime::ValueId weight(runtime::ProgramBuilder& builder, const HeadTable& table) {
  return builder.parameter(table.name, {table.vocabulary, table.width}, table.use);
}

}  // namespace

runtime::ValueId head_loss(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table, const runtime::HeadForm& form) {
  return runtime::linear_cross_entropy(builder, h, weight(builder, table), builder.batch("targets"), form, "cross_entropy");
}

runtime::ValueId head_logits(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table, const runtime::HeadForm& form) {
  return runtime::logits(builder, h, weight(builder, table), form, "logits");
}

}  // namespace millrace::layers
