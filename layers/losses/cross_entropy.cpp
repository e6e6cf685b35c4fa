#include "layers/losses/cross_entropy.hpp"

namespace millrace::layers {
namespace {

runtime::ValueId weight(runtime::ProgramBuilder& builder, const HeadTable& table) {
  const kernels::Shape shape{table.vocabulary, table.width};
  if (!table.stored_transposed) return builder.parameter(table.name, shape, table.use);
  return builder.parameter(table.name, shape, {{table.width, table.vocabulary}, true}, table.use);
}

}  // namespace

runtime::ValueId head_loss(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table, const runtime::HeadForm& form) {
  return runtime::linear_cross_entropy(builder, h, weight(builder, table), builder.batch("targets"), form, "cross_entropy");
}

runtime::ValueId head_logits(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table, const runtime::HeadForm& form) {
  return runtime::logits(builder, h, weight(builder, table), form, "logits");
}

}  // namespace millrace::layers
