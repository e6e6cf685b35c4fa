#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/data/tokenizers/splitter.hpp"

namespace millrace::runtime {
namespace {

/// PCRE2's \s includes U+180E, which lost the property White_Space in Unicode 6.3. So White_Space is spelled out.
std::string with_white_space(const std::string& expression) {
  constexpr const char* list = R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  std::string spelled;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char letter = expression[i];
    if (letter == '\\' && i + 1 < expression.size()) {
      const char next = expression[++i];
      if (next == 's') {
        spelled += in_class ? std::string(list) : "[" + std::string(list) + "]";
      } else if (next == 'S' && !in_class) {
        spelled += "[^" + std::string(list) + "]";
      } else {
        spelled += {letter, next};
      }
      continue;
    }
    if (letter == '[') in_class = true;
    if (letter == ']') in_class = false;
    spelled += letter;
  }
  return spelled;
}

/// Memory that PCRE2 needs for matching; one per thread, for all patterns.
class MatchMemory {
 public:
  MatchMemory() : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    stack_ = pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{4} << 20, nullptr);
    pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchMemory() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
  }
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;
  [[nodiscard]] pcre2_match_data* data() const { return data_; }
  [[nodiscard]] pcre2_match_context* context() const { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_ = nullptr;
};

std::string words_for(int error) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

class PatternSplitter final : public Splitter {
 public:
  PatternSplitter(const std::string& expression, const std::string& where) : where_(where) {
    constexpr std::size_t max_bytes = 8192;  // published ones have fewer than a thousand
    MILLRACE_CHECK(expression.size() <= max_bytes, ExitCode::data, tokenize_component, "{}: an expression of {}, expected at most {}",
                   where, byte_count(expression.size()), max_bytes);
    const std::string spelled = with_white_space(expression);
    int error = 0;
    std::size_t place = 0;
    code_.reset(pcre2_compile(reinterpret_cast<const unsigned char*>(spelled.data()), spelled.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY, &error, &place, nullptr));
    MILLRACE_CHECK(code_ != nullptr, ExitCode::data, tokenize_component, "{}: the expression {} is not understood: {}", where, expression,
                   words_for(error));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without JIT support pcre2_match interprets
  }

  [[nodiscard]] std::size_t end_of_piece(std::string_view text, std::size_t from) const override {
    thread_local const MatchMemory memory;
    const int found = pcre2_match(code_.get(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), from,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, memory.data(), memory.context());
    if (found == PCRE2_ERROR_NOMATCH) return text.size();
    MILLRACE_CHECK(found >= 0, ExitCode::data, tokenize_component, "{}: splitting a text of {} bytes at byte {}: {}", where_, text.size(),
                   from, words_for(found));
    const std::size_t* ends = pcre2_get_ovector_pointer(memory.data());
    // \K and look-behind can place a match's begin before the start of the search, or its end before its begin.
    if (ends[0] > from) return ends[0];
    MILLRACE_CHECK(ends[1] > from && ends[1] <= text.size(), ExitCode::data, tokenize_component, "{}: its expression matches backwards",
                   where_);
    return ends[1];
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::string where_;
  std::unique_ptr<pcre2_code, Free> code_;
};

}  // namespace

std::unique_ptr<Splitter> make_pattern_splitter(const std::string& expression, const std::string& where) {
  return std::make_unique<PatternSplitter>(expression, where);
}

}  // namespace millrace::runtime
