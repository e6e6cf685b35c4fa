#include "layers/losses/cross_entropy.hpp"

namespace millrace::layers {
namespace {

runtime::ValueId weight(runtime::ProgramBuilder& builder, const HeadTable& table) {
  const kernels::Shape shape{table.vocabulary, table.width};
  if (!table.stored_transposed) return builder.parameter(table.name, shape, {.use = table.use});
  return builder.parameter(table.name, shape, {.stored = {{table.width, table.vocabulary}, true, {}}, .use = table.use});
}

}  // namespace

runtime::ValueId output_head(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table,
                             const kernels::CrossEntropyOptions& form, bool want_logits) {
  const runtime::ValueId w = weight(builder, table);
  if (want_logits) return runtime::logits(builder, h, w, form, "logits");
  return runtime::linear_cross_entropy(builder, h, w, builder.batch("targets"), form, "cross_entropy");
}

}  // namespace millrace::layers
