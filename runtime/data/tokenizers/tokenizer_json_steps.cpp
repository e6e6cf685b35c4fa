#include "runtime/data/tokenizers/tokenizer_json_steps.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace millrace::runtime {
namespace {

constexpr std::size_t max_steps = 16;  // steps of a Sequence; published files have at most five

template <class Step>
void for_each_step(const JsonReader& sequence, const char* key, Step step) {
  const JsonReader steps = sequence.member(key);
  if (steps.array().size() > max_steps) steps.refuse("expected at most 16 steps");
  for (std::size_t i = 0; i < steps.array().size(); ++i) step(steps.at(i), i, steps.array().size());
}

// -- normalizer ---------------------------------------------------------------------------------------------------------------------------

void read_normalizer_step(const JsonReader& step, BytePairModel& model) {
  const std::string type = step.text("type").value_or("");
  if (type == "NFC") {
    step.only({"type"});
    model.nfc = true;
  } else if (type == "Prepend") {
    step.only({"type", "prepend"});
    if (step.member("prepend").text() != visible_space) step.member("prepend").refuse("expected \"▁\" (U+2581)");
    if (model.spaces.replace) step.refuse("expected Prepend before Replace");
    model.spaces.prepend = SpaceRule::Prepend::always;
  } else if (type == "Replace") {
    step.only({"type", "pattern", "content"});
    const auto pattern = step.member("pattern").optional_member("String");
    if (!pattern || pattern->text() != " " || step.member("content").text() != visible_space)
      step.refuse("expected the Replace of \" \" by \"▁\" (U+2581)");
    model.spaces.replace = true;
  } else {
    step.member("type").refuse("expected NFC, Prepend or Replace: other normalizers are not supported");
  }
}

void read_normalizer(const JsonReader& file, BytePairModel& model) {
  const auto normalizer = file.optional_member("normalizer");
  if (!normalizer) return;
  if (normalizer->text("type") == "Sequence") {
    normalizer->only({"type", "normalizers"});
    for_each_step(*normalizer, "normalizers", [&](const JsonReader& step, std::size_t, std::size_t) { read_normalizer_step(step, model); });
  } else {
    read_normalizer_step(*normalizer, model);
  }
  const bool prepends = model.spaces.prepend != SpaceRule::Prepend::never;
  if ((prepends && !model.spaces.replace) || (model.nfc && model.spaces.replace)) {
    normalizer->refuse("expected NFC, or Prepend and Replace of spaces");
  }
}

// -- pre_tokenizer ------------------------------------------------------------------------------------------------------------------------

void read_metaspace(const JsonReader& step, BytePairModel& model) {
  step.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  if (step.member("replacement").text() != visible_space) step.member("replacement").refuse("expected \"▁\" (U+2581)");
  if (model.spaces.replace) step.refuse("expected spaces written as U+2581 by the normalizer or by Metaspace, not by both");
  const auto scheme = step.optional_member("prepend_scheme");
  const std::string when = scheme ? scheme->text() : step.boolean("add_prefix_space").value_or(true) ? "always" : "never";
  if (when != "always" && when != "first" && when != "never") scheme->refuse("expected always, first or never");
  model.spaces.replace = true;
  model.spaces.prepend = when == "never" ? SpaceRule::Prepend::never : SpaceRule::Prepend::unless_there;
  model.spaces.prepend_once = when == "first";
  model.spaces.cut_at_each = step.boolean("split").value_or(true);
}

/// Reads a Split that isolates its matches, given as a regular expression or as literal text.
std::string split_expression(const JsonReader& step) {
  step.only({"type", "pattern", "behavior", "invert"});
  if (step.member("behavior").text() != "Isolated")
    step.member("behavior").refuse("expected Isolated: other behaviours of Split are not supported");
  if (step.boolean("invert").value_or(false)) step.member("invert").refuse("expected false");
  const JsonReader pattern = step.member("pattern");
  pattern.only({"Regex", "String"});
  if (const auto regex = pattern.optional_member("Regex")) return regex->text();
  const std::string literal = pattern.member("String").text();
  if (literal.empty() || literal.find("\\E") != std::string::npos) pattern.refuse("expected some text without \\E");
  return "\\Q" + literal + "\\E";
}

/// Returns true if the step is ByteLevel, which must be the last.
bool read_byte_level_step(const JsonReader& step, const std::string& where, bool alone, BytePairModel& model) {
  const std::string type = step.text("type").value_or("");
  if (type == "Split") {
    model.splitters.push_back(make_splitter(split_expression(step), where));
  } else if (type == "Digits") {
    step.only({"type", "individual_digits"});
    model.splitters.push_back(make_splitter(step.boolean("individual_digits").value_or(false) ? R"(\p{N})" : R"(\p{N}+)", where));
  } else if (type == "ByteLevel") {
    step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    model.prefix_space = step.boolean("add_prefix_space").value_or(true);
    if (model.prefix_space && !alone) step.member("add_prefix_space").refuse("expected false in a Sequence");
    if (step.boolean("use_regex").value_or(true)) model.splitters.push_back(make_splitter(SplitPattern::gpt2));
    return true;
  } else {
    step.member("type").refuse("expected ByteLevel, Split or Digits: other pre-tokenizers are not supported");
  }
  return false;
}

/// Gemma's pre-tokenizer: a Split at spaces, of which the normalizer leaves none.
bool splits_nothing(const JsonReader& step, const BytePairModel& model) {
  if (step.text("type") != "Split" || !model.spaces.replace) return false;
  const auto literal = step.member("pattern").optional_member("String");
  return literal && literal->text() == " ";
}

}  // namespace

bool read_text_steps(const JsonReader& file, BytePairModel& model) {
  read_normalizer(file, model);
  const auto steps = file.optional_member("pre_tokenizer");
  if (!steps || splits_nothing(*steps, model)) return false;
  if (steps->text("type") == "Metaspace") {
    if (model.nfc) steps->refuse("expected no normalizer NFC before Metaspace");
    read_metaspace(*steps, model);
    return false;
  }
  bool over_bytes = false;
  if (steps->text("type") == "Sequence") {
    steps->only({"type", "pretokenizers"});
    for_each_step(*steps, "pretokenizers", [&](const JsonReader& step, std::size_t i, std::size_t count) {
      over_bytes = read_byte_level_step(step, model.where, count == 1, model);
      if (over_bytes != (i + 1 == count)) step.refuse("expected ByteLevel as the last of the Sequence, and there alone");
    });
  } else {
    over_bytes = read_byte_level_step(*steps, model.where, true, model);
  }
  if (!over_bytes) steps->refuse("expected ByteLevel, Metaspace, or a Sequence that ends with ByteLevel");
  if (model.spaces.replace) file.member("normalizer").refuse("expected null or NFC before ByteLevel");
  return true;
}

void read_decoder(const JsonReader& file, bool over_bytes, BytePairModel& model) {
  const auto decoder = file.optional_member("decoder");
  if (!decoder) return;
  const std::string type = decoder->text("type").value_or("");
  if (over_bytes) {
    if (type != "ByteLevel") decoder->member("type").refuse("expected ByteLevel, as the pre_tokenizer");
    return;
  }
  if (type == "Metaspace") {
    model.spaces.strip_first = model.spaces.prepend != SpaceRule::Prepend::never;
  } else if (type == "Sequence") {
    for_each_step(*decoder, "decoders", [&](const JsonReader& step, std::size_t, std::size_t) {
      const std::string kind = step.text("type").value_or("");
      if (kind == "Strip") {
        if (step.member("content").text() != " " || step.member("start").count(1) != 1 || step.member("stop").count(0) != 0) {
          step.refuse("expected the Strip of one space at the start");
        }
        model.spaces.strip_first = true;
      } else if (kind != "Replace" && kind != "ByteFallback" && kind != "Fuse" && kind != "Metaspace") {
        step.member("type").refuse("expected Replace, ByteFallback, Fuse, Strip or Metaspace");
      }
    });
  } else {
    decoder->member("type").refuse("expected Sequence or Metaspace");
  }
}

namespace {

/// Names of the end-of-document token in published tokenizers.
constexpr std::array document_ends = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>", "<|eos|>"};

void read_template(const JsonReader& processor, const std::map<std::string, std::int32_t>& special, BytePairModel& model) {
  const JsonReader single = processor.member("single");
  bool seen_text = false;
  for (std::size_t i = 0; i < single.array().size() && i < max_steps; ++i) {
    const auto token = single.at(i).optional_member("SpecialToken");
    if (!token) {
      seen_text = true;
      continue;
    }
    const auto found = special.find(token->member("id").text());
    if (found == special.end()) token->refuse("expected a special token of added_tokens");
    auto& border = seen_text ? model.end_of_document : model.begin_of_document;
    if (!border) border = found->second;
  }
}

void read_processor(const JsonReader& processor, const std::map<std::string, std::int32_t>& special, BytePairModel& model) {
  const std::string type = processor.text("type").value_or("");
  if (type == "TemplateProcessing") return read_template(processor, special, model);
  if (type == "ByteLevel") return;  // ByteLevel changes offsets, not ids
  processor.member("type").refuse("expected TemplateProcessing or ByteLevel: other post-processors are not supported");
}

}  // namespace

void read_document_borders(const JsonReader& file, const std::map<std::string, std::int32_t>& special, BytePairModel& model) {
  if (const auto processor = file.optional_member("post_processor")) {
    if (processor->text("type") == "Sequence") {
      for_each_step(*processor, "processors",
                    [&](const JsonReader& step, std::size_t, std::size_t) { read_processor(step, special, model); });
    } else {
      read_processor(*processor, special, model);
    }
  }
  for (const char* name : document_ends) {
    const auto found = special.find(name);
    if (!model.end_of_document && found != special.end()) model.end_of_document = found->second;
  }
}

}  // namespace millrace::runtime
