#include "actors/setup/session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "cluster/host/abort.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/host/console.hpp"
#include "cluster/host/log.hpp"

namespace millrace::actors {
namespace {

template <class Key, class Handler>
void set_handler(std::map<Key, Handler>& handlers, Key key, Handler handler) {
  if (handler) {
    handlers[key] = std::move(handler);
  } else {
    handlers.erase(key);
  }
}

constexpr std::uint16_t forwarded_log_type = 32;  // type of a control message: a byte for the level, the source, a zero, the message

std::string log_bytes(const cluster::ForwardedLog& line) { return static_cast<char>(line.level) + line.source + '\0' + line.message; }

cluster::ForwardedLog log_from_bytes(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto zero = text.find('\0', 1);
  if (zero == text.npos) return {};
  return {static_cast<cluster::LogLevel>(text[0]), std::string(text.substr(1, zero - 1)), std::string(text.substr(zero + 1))};
}

}  // namespace

Session::Session() : launch_(cluster::launch_from_environment()), cores_(cluster::widen_affinity()) {
  if (launch_.processes > 1) transport_ = std::make_unique<cluster::Transport>();
}

Session::~Session() {
  if (!leads()) cluster::forward_log({}, {});
}

void Session::prepare_together(const std::function<void()>& prepare) {
  ExitCode code = ExitCode::ok;
  std::string message;
  try {
    prepare();
  } catch (const std::exception& thrown) {
    const auto error = cluster::error_of(thrown, "actors.session");
    code = error.code();
    message = error.what();
  }
  std::int32_t leader = static_cast<std::int32_t>(code);
  if (transport_) transport_->broadcast(std::as_writable_bytes(std::span(&leader, 1)));
  if (leader != 0 && !leads())
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // process 0 prints the message and exits first, with the right code
  if (leader != 0 || code != ExitCode::ok) {
    cluster::abort_job(leader != 0 ? static_cast<ExitCode>(leader) : code, message, leads() || leader == 0);
  }
}

void Session::connect(int ranks, const cluster::ClusterConfig& config) {
  prepare_together([&] { topology_ = std::make_unique<cluster::Topology>(ranks, launch_.processes, launch_.process); });
  stall_limit_ = std::chrono::milliseconds(config.stall_ms);
  cluster::ControlHandlers handlers;
  handlers.on_message = [this](int process, std::uint16_t type, std::span<const std::byte> bytes) {
    if (type == forwarded_log_type) return cluster::log_forwarded(process, log_from_bytes(bytes));
    const std::lock_guard lock(mutex_);  // held during the call, so that a caller that removes the handler may then destroy what it used
    if (const auto found = messages_.find(type); found != messages_.end()) found->second(process, type, bytes);
  };
  handlers.progress = [this](std::span<cluster::Progress> progress) {
    const std::lock_guard lock(mutex_);
    return progress_ ? progress_(progress) : std::size_t{0};
  };
  handlers.heard = [this](int, std::span<const cluster::Progress> progress) {
    const std::lock_guard lock(mutex_);
    for (const auto& [listener, handler] : heard_) handler(progress);
  };
  handlers.waits = [this](std::span<const cluster::PeerFailure> lost) {
    const std::lock_guard lock(mutex_);
    return waits_ ? waits_(lost) : std::string();
  };
  handlers.advice = [this] {
    const std::lock_guard lock(mutex_);
    return advice_ ? advice_() : std::string();
  };
  if (!transport_) {
    control_ = std::make_unique<cluster::ControlLink>(config, *topology_, cluster::Rendezvous{}, nullptr, std::move(handlers));
    return;
  }
  std::unique_ptr<cluster::Listener> listener;
  cluster::Rendezvous rendezvous;
  prepare_together([&] {
    if (!leads()) return;
    listener = std::make_unique<cluster::Listener>(config, transport_->one_host());
    rendezvous = listener->rendezvous();
  });
  transport_->broadcast(std::as_writable_bytes(std::span(&rendezvous, 1)));
  try {
    control_ = std::make_unique<cluster::ControlLink>(config, *topology_, rendezvous, listener.get(), std::move(handlers));
  } catch (const Error& error) {
    // not thrown: unwinding leads to MPI_Finalize, which the other processes will not reach
    cluster::abort_job(error.code(), error.what());
  }
  if (!leads()) forward_log();
  transport_->on_failure([this](const Error& error) {
    // Not on the transport thread, unless the system refuses another: report_failure may take a while, and the reason must stay the first.
    try {
      std::thread([this, code = error.code(), text = std::string(error.what())] { fail(code, text); }).detach();
    } catch (const std::system_error&) {
      fail(error.code(), error.what());
    }
  });
}

void Session::forward_log() {
  cluster::forward_log(cluster::ranks_text(*topology_, topology_->process()), [this](const cluster::ForwardedLog& line) {
    const std::string bytes = log_bytes(line);
    try {
      control_->send(0, forwarded_log_type, std::as_bytes(std::span(bytes)));
    } catch (const Error&) {  // too much waits for process 0
      return false;
    }
    return true;
  });
}

std::string Session::broadcast(const std::string& text) {
  if (!transport_) return text;
  std::array<char, 4096> buffer{};
  MILLRACE_CHECK(text.size() < buffer.size(), ExitCode::internal, "actors.session", "{} bytes to broadcast, {} fit", text.size(),
                 buffer.size() - 1);
  if (leads()) std::memcpy(buffer.data(), text.data(), text.size());
  transport_->broadcast(std::as_writable_bytes(std::span(buffer)));
  return std::string(buffer.data());
}

void Session::on_message(std::uint16_t type, MessageHandler handler) {
  const std::lock_guard lock(mutex_);
  set_handler(messages_, type, std::move(handler));
}

void Session::on_progress(std::function<std::size_t(std::span<cluster::Progress>)> handler) {
  const std::lock_guard lock(mutex_);
  progress_ = std::move(handler);
}

void Session::on_heard(const void* listener, ProgressHandler handler) {
  const std::lock_guard lock(mutex_);
  set_handler(heard_, listener, std::move(handler));
}

void Session::on_waits(WaitsHandler handler) {
  const std::lock_guard lock(mutex_);
  waits_ = std::move(handler);
}

void Session::on_advice(std::function<std::string()> handler) {
  const std::lock_guard lock(mutex_);
  advice_ = std::move(handler);
}

void Session::fail(ExitCode code, const std::string& message) {
  const bool speak = control_ ? control_->report_failure(code, message) : true;
  cluster::abort_job(code, message, speak);
}

void Session::carry_out(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& thrown) {
    const auto error = cluster::error_of(thrown, "actors.session");
    fail(error.code(), error.what());
  }
  close();
}

void Session::close() {
  if (!leads()) cluster::forward_log(cluster::ranks_text(*topology_, topology_->process()), {});  // process 0 may be gone first
  if (control_) control_->close();
  if (transport_) transport_->finalize();
}

}  // namespace millrace::actors
