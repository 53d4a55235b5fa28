# The kernels, free of Python: their sources, and the inner loops once per tier of vector instructions.
#   bridle_kernels(target)   adds both to a target
set(BRIDLE_ROOT ${CMAKE_CURRENT_LIST_DIR}/..)

set(flags)
set(tier_flags)
set(portable_flags)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  set(flags -Wall -Wextra -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off)
  set(section_flags -ffunction-sections -fdata-sections)  # the linker drops what nobody calls
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Its own intrinsics make it warn; and it would turn accumulators that are set to zero into a memset on the stack.
  set(tier_flags -Wno-uninitialized -Wno-maybe-uninitialized -fno-tree-loop-distribute-patterns)
endif()
if(BRIDLE_SANITIZE)
  list(APPEND flags -fsanitize=${BRIDLE_SANITIZE} -fno-omit-frame-pointer -g1)
  if(BRIDLE_SANITIZE MATCHES "undefined")
    list(APPEND flags -fno-sanitize-recover=undefined)
  endif()
  list(APPEND flags -O1)  # checks in every inlined operation: more takes minutes to compile
elseif(flags AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64|aarch64|arm64|ARM64")
  set(portable_flags -O2)  # every processor of these has a better tier, so that this one only serves to check the others
endif()

# simd/tiers.cpp chooses among the tiers when the library is loaded.
function(bridle_tier target tier name)
  set(objects ${target}_${tier})
  add_library(${objects} OBJECT ${BRIDLE_ROOT}/cpp/simd/kernels.cpp)
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
  target_include_directories(${objects} PRIVATE ${BRIDLE_ROOT}/cpp)
  target_compile_definitions(${objects} PRIVATE BRIDLE_TIER=${tier} BRIDLE_TIER_NAME="${name}")
  target_compile_options(${objects} PRIVATE ${flags} ${tier_flags} ${ARGN})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
endfunction()

# The headers that most kernels include, parsed once. The sanitized build goes without: there, every file must include what it uses.
set(BRIDLE_HEADERS <algorithm> <cmath> <cstdint> <cstring> <functional> <limits> <memory> <string> <utility> <vector>)

function(bridle_kernels target)
  file(GLOB sources CONFIGURE_DEPENDS ${BRIDLE_ROOT}/cpp/*/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(border/[^/]*|simd/kernels.cpp)$")
  set(objects ${target}_kernels)
  add_library(${objects} OBJECT ${sources})
  target_include_directories(${objects} PRIVATE ${BRIDLE_ROOT}/cpp)
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
  target_compile_options(${objects} PRIVATE ${flags} ${section_flags})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  if(BRIDLE_SANITIZE)
    target_link_options(${target} PRIVATE -fsanitize=${BRIDLE_SANITIZE})
  else()
    target_precompile_headers(${objects} PRIVATE ${BRIDLE_HEADERS})
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    bridle_tier(${target} sse2 baseline)
    if(MSVC)
      bridle_tier(${target} avx2 avx2 /arch:AVX2)
      bridle_tier(${target} avx512 avx512 /arch:AVX512)
    else()
      bridle_tier(${target} avx2 avx2 -mavx2 -mfma)
      bridle_tier(${target} avx512 avx512 -mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl
                  -mprefer-vector-width=512)
    endif()
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
    bridle_tier(${target} neon baseline)
  endif()
  bridle_tier(${target} portable portable ${portable_flags})
endfunction()
