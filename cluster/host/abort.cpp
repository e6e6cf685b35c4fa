#include "cluster/host/abort.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "cluster/host/console.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto whole_limit = std::chrono::milliseconds(550);
constexpr auto lines_limit = std::chrono::milliseconds(80);     // for earlier output, per stream
constexpr auto message_limit = std::chrono::milliseconds(100);  // slightly more if the reader takes part of it

struct Hooks {
  std::mutex mutex;
  std::vector<std::function<void()>> list;
};

Hooks& hooks() {
  static auto* const all = new Hooks;  // never destroyed: abort_job may run while main() returns
  return *all;
}

std::atomic<bool> leaving{false};
std::atomic<const std::string*> first_message{nullptr};

/// From here on the process ends with this code, even if this thread is blocked by a reader of stderr that does not read, or by a
/// hook that waits for a lock of a stuck thread.
void end_after(std::chrono::milliseconds limit, ExitCode code) {
  try {
    std::thread([limit, code] {
      std::this_thread::sleep_for(limit);
      _exit(static_cast<int>(code));
    }).detach();
  } catch (const std::system_error&) {  // no thread can be created: the alarm ends the process a little later
    static std::atomic<int> status;
    status = static_cast<int>(code);
    ::signal(SIGALRM, [](int) { _exit(status.load()); });
    ::alarm(1);
  }
}

void run_hooks() {
  const std::unique_lock lock(hooks().mutex, std::try_to_lock);
  if (!lock) return;
  for (const auto& hook : hooks().list) {
    try {
      hook();
    } catch (...) {  // the first error has been reported already
    }
  }
}

}  // namespace

void add_abort_hook(std::function<void()> hook) {
  const std::lock_guard lock(hooks().mutex);
  hooks().list.push_back(std::move(hook));
}

std::string_view abort_message() {
  const std::string* message = first_message.load(std::memory_order_acquire);
  return message == nullptr ? std::string_view{} : std::string_view(*message);
}

void abort_job(ExitCode code, std::string_view message, bool speak) {
  if (leaving.exchange(true)) {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  const auto* text = new std::string(message);  // must live until _exit
  first_message.store(text, std::memory_order_release);
  end_after(whole_limit, code);
  ::signal(SIGPIPE, SIG_IGN);  // a stderr without a reader must not end the process in another way
  drain_console(lines_limit);
  if (speak) {
    const auto deadline = Clock::now() + message_limit;
    write_text(STDERR_FILENO, *text + "\n", [deadline] { return Clock::now() > deadline; });
  }
  run_hooks();
  _exit(static_cast<int>(code));
}

}  // namespace millrace::cluster
