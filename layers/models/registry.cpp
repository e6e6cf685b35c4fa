#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/base/check.hpp"
#include "layers/models/model_family.hpp"

namespace millrace::layers {

// Each family's folder defines its function.
#define MILLRACE_MODEL_FAMILY(name) const ModelFamily& name();
#include "layers/models/families.inc"
#undef MILLRACE_MODEL_FAMILY

namespace {

std::vector<const ModelFamily*>& known_families() {
#define MILLRACE_MODEL_FAMILY(name) &name(),
  static std::vector<const ModelFamily*> families = {
#include "layers/models/families.inc"
  };
#undef MILLRACE_MODEL_FAMILY
  return families;
}

}  // namespace

const std::vector<const ModelFamily*>& model_families() { return known_families(); }

void add_model_family(const ModelFamily& family) { known_families().push_back(&family); }

Initial ModelFamily::initial(const ModelSpec&, const std::string& name, const kernels::Shape& shape) const {
  if (name.ends_with(".bias")) return {InitialKind::zeros};
  return {shape.rank() >= 2 ? InitialKind::normal : InitialKind::ones};
}

const MtpFamily& ModelFamily::multi_token_prediction() const {
  fail(ExitCode::model, "layers.models", "{} has no modules that predict further tokens, expected model.mtp_layers = 0", traits().name);
}

std::vector<StreamSpec> ModelFamily::streams(const ModelSpec& model, int) const { return {{.axes = {model.stream_width()}}}; }

Streams ModelFamily::layer_part(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                const Streams& in) const {
  expect_whole(part);
  return layer(builder, model, index, in);
}

void ModelFamily::expect_whole(LayerPart part) const {
  MILLRACE_CHECK(part == LayerPart::whole, ExitCode::model, "layers.models",
                 "{}: its layers are not divided, expected pipeline.layout with whole layers (t) instead of a and f", traits().name);
}

bool FamilyTraits::reads(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }

std::span<const FamilyTraits* const> family_traits() {
  static const std::vector<const FamilyTraits*> all = [] {
    std::vector<const FamilyTraits*> list;
    for (const ModelFamily* family : model_families()) list.push_back(&family->traits());
    return list;
  }();
  return all;
}

const FamilyTraits* find_family_traits(std::string_view name, std::string_view numerics) {
  const auto found = std::ranges::find_if(family_traits(),
                                          [&](const FamilyTraits* traits) { return traits->name == name && traits->numerics == numerics; });
  return found == family_traits().end() ? nullptr : *found;
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const ModelFamily* family : model_families()) {
    const std::string_view name = family->traits().name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

bool is_family_key(std::string_view key) {
  return std::ranges::any_of(family_traits(), [&](const FamilyTraits* traits) { return traits->reads(key); });
}

const ModelFamily& family_of(const ModelConfig& config) {
  constexpr const char* component = "layers.models";
  const FamilyTraits* namesake = nullptr;
  for (const ModelFamily* family : model_families()) {
    if (family->traits().name != config.family) continue;
    if (family->traits().numerics == config.numerics) return *family;
    namesake = &family->traits();
  }
  if (namesake != nullptr) {
    fail(ExitCode::model, component, "model.numerics = \"{}\" with the family {}, expected \"{}\"", config.numerics, config.family,
         namesake->numerics);
  }
  fail(ExitCode::model, component, "model.family = \"{}\", expected one of: {}", config.family, fmt::join(family_names(), ", "));
}

}  // namespace millrace::layers
