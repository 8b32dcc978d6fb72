// TACIT_ADDRESS_SANITIZER, TACIT_THREAD_SANITIZER: defined where the code is compiled with them, by gcc or by clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define TACIT_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TACIT_THREAD_SANITIZER 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TACIT_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define TACIT_THREAD_SANITIZER 1
#endif
#endif
