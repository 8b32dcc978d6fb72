// A picture leads to itself in full size: on a phone its texts are small.
document.querySelectorAll("article img").forEach((image) => {
  if (image.closest("a")) return;
  const link = document.createElement("a");
  link.href = image.src;
  image.replaceWith(link);
  link.append(image);
});
