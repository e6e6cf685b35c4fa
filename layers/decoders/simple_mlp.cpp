#include "layers/decoders/simple_mlp.hpp"

#include "layers/decoders/maxtext_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class SimpleMlp final : public MaxTextDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "simple_mlp"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const MaxTextLayer layer = begin_layer(builder, config, index, x);
    const ValueId middle = layer.product(x, "ff_1", config.hidden_size, config.intermediate_size);
    return layer.product(middle, "ff_2", config.intermediate_size, config.hidden_size);
  }
};

}  // namespace

const Decoder& simple_mlp() {
  static const SimpleMlp decoder;
  return decoder;
}

}  // namespace millrace::layers
